"""Peers with spent budgets: they cost the others nothing, and end where the others end."""

import pytest

from protocol.actions import Reason
from protocol.wire.messages import Group, Hello
from scenarios.simulator.network import Network, by_key
from scenarios.simulator.peer import SimulatedPeer
from scenarios.simulator.plans import Conditions, Crash, Links, Offers, Plan, random_plan
from scenarios.simulator.rules import Violation
from tests.simulation.runs import outcomes, reasons, run, sent

SPENT = "budget-spent"
AT_MOST_S = 2.0
"""Without a wait a round has a training of at most 0.6 s and a few messages; linger alone is 5 s at first."""


def went_on(network: Network, followers: dict[int, int]) -> None:
    """Checks that offering peers aggregate every round without waiting, and all end in one base and round."""
    for peer in network.peers:
        rounds = outcomes(network, peer.index)
        first = followers.get(peer.index, network.plan.rounds + 1)
        expected = [None if number < first else SPENT for number in range(1, network.plan.rounds + 1)]
        assert [outcome.reason for outcome in rounds] == expected
        assert [outcome.round for outcome in rounds] == list(range(1, network.plan.rounds + 1))
    assert network.rules.longest_wait_s < AT_MOST_S
    assert len(network.finishers()) == network.plan.peers
    assert {peer.base for peer in network.peers} == {network.peers[0].base}
    assert network.peers[0].base.generation == network.plan.rounds


@pytest.mark.sampled("0-False", "1-True", "3-False", "4-True")
@pytest.mark.parametrize("tracker", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_three_of_five_go_on_while_two_follow_and_all_end_alike(seed, tracker):
    """They begin to follow in different rounds, and their keys have all positions."""
    order = by_key(5, seed)
    followers = {order[seed % 5]: 1 + seed % 3, order[(seed + 2) % 5]: 2 + seed % 3}
    plan = Plan(5, 6, offers=Offers(follows=tuple(followers.items())), tracker=tracker)

    went_on(run(plan, seed), followers)


@pytest.mark.parametrize("places", [(0,), (0, 1)])
def test_the_next_candidate_coordinates_when_the_first_ones_follow(places):
    order = by_key(5, seed=2)
    followers = {order[place]: 3 for place in places}
    network = run(Plan(5, 6, offers=Offers(follows=tuple(followers.items()))), seed=2)
    went_on(network, followers)
    closed = [
        (line.sender, max(ready.announce.round for ready in line.message.readys) + 1)
        for line in sent(network, lambda line: isinstance(line.message, Group))
        if isinstance(line.message, Group)
    ]

    assert {sender for sender, round in closed if round < 3} == {order[0]}
    assert {sender for sender, round in closed if round >= 3} == {order[len(places)]}


@pytest.mark.parametrize("tracker", [False, True])
def test_three_of_seven_go_on_while_four_follow(tracker):
    """Three are no majority of seven, but they are all that offer."""
    followers = dict.fromkeys(by_key(7, seed=4)[:4], 2)
    plan = Plan(7, 5, offers=Offers(follows=tuple(followers.items())), tracker=tracker)

    went_on(run(plan, seed=4), followers)


@pytest.mark.parametrize("tracker", [False, True])
def test_when_all_follow_nobody_waits_and_all_end_alike(tracker):
    follows = tuple((peer, 3) for peer in range(4))
    network = run(Plan(4, 6, offers=Offers(follows=follows), tracker=tracker), seed=1)

    assert all(reasons(network, peer) == [None, None, Reason.ALL_SPENT] for peer in range(4))
    assert network.rules.longest_wait_s < AT_MOST_S
    assert {peer.base.generation for peer in network.finishers()} == {2}
    assert len(network.digests()) == 1


@pytest.mark.sampled("2")
@pytest.mark.parametrize("later", [2, 20, 50])
def test_a_follower_that_restarts_still_follows_and_ends_alike(later, monkeypatch):
    """It dies some sends after it first said that it follows; after the restart only its disk knows that."""
    train = SimulatedPeer._train

    def forgetful(self: SimulatedPeer) -> None:
        self._follows_from = 1 if self.life == 1 and self.index == 4 else self._follows_from
        train(self)
        self._follows_from = self._follows_from if self.index != 4 else 99

    monkeypatch.setattr(SimulatedPeer, "_train", forgetful)
    lines = [line.message for line in run(Plan(5, 8), seed=9).transcript if line.sender == 4]
    said = next(n for n, m in enumerate(lines, 1) if isinstance(m, Hello) and m.announce.following)
    network = run(Plan(5, 8, Conditions(crashes=(Crash(4, said + later, 1.0),))), seed=9)

    assert network.peers[4].life > 2
    assert network.peers[4].disk.state.following
    assert set(reasons(network, 4)) == {SPENT}
    assert all(set(reasons(network, peer)) == {None} for peer in range(4))
    assert len(network.digests()) == 1


@pytest.mark.sampled("0", "2", "3", "5", "8")
@pytest.mark.parametrize("seed", range(9))
def test_messages_that_are_lost_leave_no_follower_behind(seed):
    """A last answer may be lost that no remaining node can repeat; in none of the first 60 seeds it is.

    A link loses messages only when it ends, so a node gets there only if several links break.
    """
    lossy = Conditions(Links(delay_s=(0.001, 0.2), loss=0.02, duplication=0.2))
    network = run(Plan(5, 5, lossy, offers=Offers(follows=((seed % 5, 2), ((seed + 1) % 5, 3)))), seed)

    assert len(network.finishers()) == 5
    assert len(network.digests()) == 1, f"seed {seed}"


def test_an_offer_of_one_that_follows_is_a_violation():
    network = Network(Plan(3, 2), seed=5)
    network.rules.followed(1)
    with pytest.raises(Violation, match="seed 5: peer 1 follows, and offers"):
        network.run()


def test_some_random_plans_have_followers():
    plans = [random_plan(seed) for seed in range(100)]
    followers = [plan.offers.follows for plan in plans if plan.offers.follows]

    assert 15 < len(followers) < 50
    assert {len(follows) for follows in followers} >= {1, 2, 3}
    for plan in plans:
        assert all(peer < plan.peers and 1 <= first <= plan.rounds for peer, first in plan.offers.follows)
