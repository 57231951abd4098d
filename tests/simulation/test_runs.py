"""Runs of steps in whole nodes: every crash position, random schedules, and what an observer of all learns.

The rules of the simulator hold in each: no two strong bases beside each other, nothing offered twice, sums
with every member in them, one release for each member and step.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest

from protocol.aggregation.masked import key_setup
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.swarm.node import Node
from protocol.wire.ids import Key, Sid
from protocol.wire.masked_messages import Join, Masked, Release
from protocol.wire.messages import Group
from scenarios.simulator.network import Network
from scenarios.simulator.plans import Conditions, Crash, Plan, Summation, random_plan
from tests.cases import soaks
from tests.simulation.masked_observer import MaskedObserver, MaskedSession, session_of
from tests.simulation.runs import run

PEERS, STEPS = 5, 4
REDUCERS = 0
LAYOUTS = (REDUCERS, ALL_TO_ALL_BYTES)
CALM = Conditions()
IN_CI, OF_ONE_TEST = 10, 10
"""Those whose observer learns nothing, below, are schedules too."""
FIRST_OF_SOAK, IN_SOAK = 1_000_000, 10_000


def plan_of(conditions: Conditions = CALM, layout: int = REDUCERS) -> Plan:
    """A run of four steps, and a fifth sum in a run of its own."""
    masked = MaskedSettings(4.0, None, layout, honest=2)
    return Plan(PEERS, STEPS + 1, conditions, Summation(masked=masked, dimension=20, run_steps=STEPS))


def random_run(seed: int) -> Plan:
    """The network and the faults of `random_plan`, among peers that take runs of steps."""
    plan, rng = random_plan(seed), random.Random(seed)
    masked = MaskedSettings(4.0, None, rng.choice(LAYOUTS), honest=rng.choice((2, 3)))
    aggregation = replace(plan.aggregation, masked=masked, run_steps=rng.choice((2, 3, 5)))
    return replace(plan, aggregation=aggregation)


def joins_of(network: Network) -> int:
    return sum(isinstance(line.message, Join) for line in network.transcript)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_calm_run_joins_once(layout):
    network = run(plan_of(layout=layout), 3)
    assert {outcome.reason for outcome in network.rules.outcomes} == {None}
    assert len(network.digests()) == 1
    assert joins_of(network) == 2 * PEERS * (PEERS - 1)


def crash_everywhere(layout: int, seed: int, every: int) -> Counter[int]:
    """Kills every peer at every `every`-th of its sends: the survivors end alike. Counts the failed sums."""
    failed = Counter[int]()
    calm = run(plan_of(layout=layout), seed)
    for peer in calm.peers:
        for at_send in range(1 + peer.index % every, peer.sends + 1, every):
            back_s = (None, 0.5)[at_send // 2 % 2]
            crash = Conditions(crashes=(Crash(peer.index, at_send, back_s),))
            network = run(plan_of(crash, layout), seed)
            living = [other for other in network.peers if other.index != peer.index]
            assert all(other.done for other in living), (seed, peer.index, at_send)
            assert len({other.base.digest for other in living}) == 1, (seed, peer.index, at_send)
            ends = network.rules.outcomes
            failed[len({end.sid for end in ends if end.reason is not None} - {None})] += 1
    return failed


@pytest.mark.sampled("65536")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_death_anywhere_in_a_run_costs_a_sum_and_the_others_end_alike(layout):
    failed = crash_everywhere(layout, seed=3, every=61)
    assert failed[0] > failed.total() / 10
    assert failed[0] + failed[1] > failed.total() * 0.9, failed


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_death_at_every_send_of_a_run(layout, seed):
    crash_everywhere(layout, seed, every=1)


@pytest.mark.sampled("0")
@pytest.mark.parametrize("first", range(0, IN_CI, OF_ONE_TEST))
def test_random_schedules_of_runs_break_no_rule(first):
    assert sum(has_a_later_step(seed) for seed in range(first, first + OF_ONE_TEST)) > OF_ONE_TEST / 4


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST_OF_SOAK, FIRST_OF_SOAK + IN_SOAK, OF_ONE_TEST))
def test_many_random_schedules_of_runs_break_no_rule(first):
    for seed in range(first, first + OF_ONE_TEST):
        has_a_later_step(seed)


def has_a_later_step(seed: int) -> bool:
    """Runs a schedule; returns whether somebody sent its vector in a later step of a run."""
    network, groups = noted(random_run(seed), seed)
    later = {sid for sid, group in groups.items() if group.step}
    return any(
        isinstance(line.message, Masked) and line.message.head.sid in later for line in network.transcript
    )


# -- what an observer of everything learns, over all steps of a run ------------------------------------------


@contextmanager
def groups_noted() -> Iterator[dict[Sid, Group]]:
    """Notes the group of each session that a node begins: a later step's group is in no message."""
    begin, groups = Node._begin, dict[Sid, Group]()

    def noting(node, machine, *arguments):
        groups[machine.participant.sid] = machine.participant.group
        return begin(node, machine, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Node, "_begin", noting)
        yield groups


Noted = tuple[Network, dict[Sid, Group]]


def noted(plan: Plan, seed: int) -> Noted:
    """Runs a plan; returns the network, and the group of each session."""
    with groups_noted() as groups:
        return Network(plan, seed).run(), groups


def sessions_in(plan: Plan, seed: int) -> list[MaskedSession]:
    return sessions_of(noted(plan, seed), plan)


def sessions_of(run: Noted, plan: Plan, colluders: tuple[int, ...] = ()) -> list[MaskedSession]:
    """Returns the facts about all steps; masks of the same keys have the same names in all of them."""
    network, groups = run
    messages = [line.message for line in network.transcript]
    deals = {(m.head.sid, m.head.sender): m.deals for m in messages if isinstance(m, Join)}
    told = frozenset(network.peers[peer].key.public for peer in colluders)
    sids = dict.fromkeys(message.head.sid for message in messages if isinstance(message, Masked))
    found = []
    for sid in sids:
        group = groups[sid]
        members = tuple(ready.key for ready in group.readys)
        if len(members) < 4:
            continue
        run_sid = next(other for other, known in groups.items() if known == group.run)
        dealt = [deals[run_sid, key][group.step] for key in members]
        offers = tuple(_units(network, sid, key) for key in members)
        masked = plan.aggregation.masked
        assert masked is not None
        dropouts = masked.tolerance(len(members)).dropouts
        session = session_of(messages, sid, members, offers, dropouts, told)
        names = tuple((deal.commitment, deal.mask_key) for deal in dealt)
        found.append(replace(session, names=names))
    return found


def _units(network: Network, sid: Sid, key: Key) -> tuple[tuple[object, ...], ...]:
    peer, units = network.rules.offers.get((sid, key), (0, ()))
    return tuple(("unit", peer, unit) for unit in units)


@cache
def crashed(crash: Crash | None) -> Noted:
    return noted(plan_of(Conditions(crashes=(crash,) if crash else ())), 3)


CRASHES = [None, *(Crash(peer, at_send, None) for peer in (1, 4) for at_send in range(60, 200, 20))]


@pytest.mark.parametrize("crash", CRASHES, ids=str)
@pytest.mark.parametrize("colluders", [(), (0, 3)])
def test_only_the_sums_of_all_members_are_determined_over_all_steps(crash, colluders):
    sessions = sessions_of(crashed(crash), plan_of(), colluders)
    assert len(sessions) > 2
    assert MaskedObserver(sessions).exposed() == []
    whole = [session for session in sessions if session.included]
    assert whole
    assert all(session.included == 2 ** len(session.offers) - 1 for session in whole)
    assert all(MaskedObserver(sessions).knows(session, session.included) for session in whole)


@pytest.mark.sampled(without=["60", "61", "63", "64", "68"])
@pytest.mark.parametrize("seed", [*range(60, 76), *soaks(range(76, 90))])
def test_random_schedules_of_runs_expose_nobody(seed):
    assert MaskedObserver(sessions_in(random_run(seed), seed)).exposed() == []


def _one_secret(kind: bytes):
    """Returns a derivation that gives all steps of a run the same secret of one kind."""
    honest = key_setup.derive

    def derive(root: bytes, label: bytes, *context: bytes) -> bytes:
        if label == b"step":
            return root + context[0]
        step, of_run = root[32:], root[:32]
        return honest(of_run, label) if not step or label == kind else honest(of_run, label, step)

    return derive


def test_planted_fault_a_self_mask_that_is_used_again_shows_a_member_bare(monkeypatch):
    """A step opens its self masks: a later step whose pair keys are opened has no mask left."""
    monkeypatch.setattr(key_setup, "derive", _one_secret(b"self-mask"))
    sessions = sessions_in(plan_of(), 3)
    assert len({session.names for session in sessions}) > 1
    assert len({name[0] for session in sessions for name in session.names}) < PEERS * len(sessions)
    broken = [*sessions[:3], replace(sessions[3], self_masks=0, mask_keys=0b00001, included=0)]

    assert MaskedObserver(broken).exposed() != []
    monkeypatch.undo()
    right = sessions_in(plan_of(), 3)
    right = [*right[:3], replace(right[3], self_masks=0, mask_keys=0b00001, included=0)]
    assert MaskedObserver(right).exposed() == []


def test_planted_fault_a_pair_key_for_two_steps_shows_a_member_bare_once_it_is_opened(monkeypatch):
    """Opening a pair key in one step takes the masks of all earlier ones off, whose self masks are open."""
    monkeypatch.setattr(key_setup, "derive", _one_secret(b"mask-key"))
    sessions = sessions_in(plan_of(), 3)
    broken = [*sessions[:3], replace(sessions[3], self_masks=0, mask_keys=0b00001, included=0)]
    assert MaskedObserver(broken).exposed() != []
    monkeypatch.undo()
    right = sessions_in(plan_of(), 3)
    right = [*right[:3], replace(right[3], self_masks=0, mask_keys=0b00001, included=0)]
    assert MaskedObserver(right).exposed() == []


def test_every_release_is_for_all_members():
    network = run(plan_of(), 3)
    releases = [line.message for line in network.transcript if isinstance(line.message, Release)]
    assert {release.head.included for release in releases} == {2**PEERS - 1}
