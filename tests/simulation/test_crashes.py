"""One peer dies instead of any one of its sends: the others end every round in time, with the same base.

The tests cover every other position in a run of two rounds, a soak all of them. The others' deadlines are
20 s for the group and 15 s for each phase.
"""

from itertools import product

import pytest

from protocol.swarm.meeting.room import LINGER_CAP_S
from scenarios.simulator.network import START_S, Network
from scenarios.simulator.plans import Conditions, Crash, Links, Plan
from scenarios.simulator.rules import JOIN_S
from tests.cases import soak
from tests.simulation.runs import outcomes, run

ROUNDS = 2
BACK_S = 0.5
VARIANTS = tuple(product((None, BACK_S), (True, False)))
SLACK_S = 1.0


def sends_of(plan: Plan, seed: int) -> list[int]:
    return [host.sends for host in run(plan, seed).hosts]


def check(network: Network, crash: Crash, notices: bool) -> None:
    where = f"{crash}, notices {notices}"
    plan = network.plan
    others = [peer for peer in network.peers if peer.index != crash.peer]
    assert all(peer.done for peer in others), where
    assert len({peer.base.digest for peer in others}) == 1, where
    assert all(peer.gave_up or peer.base.generation == ROUNDS for peer in others), where
    assert all(len(outcomes(network, peer.index)) < 2 * ROUNDS for peer in others), where
    for peer in others:
        at_s = START_S
        for outcome in outcomes(network, peer.index):
            assert outcome.at_s - at_s <= longest_round_s(plan, outcome.round, notices), where
            at_s = outcome.at_s


def longest_round_s(plan: Plan, number: int, notices: bool) -> float:
    """Returns the bound on a round's time: peers notified of the death lose at most a group's linger.

    In the last round those that came too late for its group may be too few for another one: T_group.
    """
    times = plan.aggregation.timeouts
    worst_s = times.group_s + max(times.shares_s, times.sums_s)
    if notices:
        worst_s = times.group_s if number >= ROUNDS else LINGER_CAP_S
    return JOIN_S + worst_s + max(plan.offers.train_s) + SLACK_S


def crash_everywhere(peers: int, seed: int, which: str, tracker: bool = False) -> int:
    """`which`: every variant at every position ("all"), or one, in turn, at every other one ("one each")."""
    runs = 0
    sends = sends_of(Plan(peers, ROUNDS, tracker=tracker), seed)
    for host, count in enumerate(sends[:peers]):
        for at_send in range(1, count + 1, 1 if which == "all" else 2):
            chosen = VARIANTS if which == "all" else (VARIANTS[(at_send // 2 + host) % len(VARIANTS)],)
            for back_after_s, notices in chosen:
                crash = Crash(host, at_send, back_after_s)
                conditions = Conditions(Links(notices_loss=notices), crashes=(crash,))
                network = run(Plan(peers, ROUNDS, conditions, tracker=tracker), seed)
                check(network, crash, notices)
                runs += 1
    return runs


@pytest.mark.sampled
@pytest.mark.parametrize(("peers", "seed"), [(4, 1), soak(5, 2)])
def test_every_peer_killed_at_every_other_send(peers, seed):
    """Includes the coordinating peer: among peers it is the one with the lowest key."""
    assert crash_everywhere(peers, seed, "one each") > 15 * peers


@pytest.mark.sampled
def test_every_peer_killed_at_every_other_send_with_a_tracker():
    assert crash_everywhere(4, 3, "one each", tracker=True) > 30


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tracker", [False, True])
@pytest.mark.parametrize("peers", [4, 5])
def test_every_peer_killed_at_every_send_in_every_way(peers, tracker, seed):
    crash_everywhere(peers, seed, "all", tracker)


@pytest.mark.parametrize("at_send", range(6, 60, 9))
def test_the_tracker_is_killed_and_comes_back(at_send):
    crash = Crash(5, at_send, 2.0)
    network = run(Plan(5, 4, Conditions(crashes=(crash,)), tracker=True), at_send)
    assert len(network.digests()) == 1, crash
    assert max(outcome.at_s for outcome in network.rules.outcomes) - START_S < 30.0, crash
