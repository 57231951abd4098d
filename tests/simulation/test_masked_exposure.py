"""An observer of all messages of masked machines, in sessions that lose a member at any of its sends."""

from dataclasses import replace
from functools import cache

import pytest

from protocol.wire.masked_messages import Masked
from scenarios.simulator.network import Network
from scenarios.simulator.plans import random_plan
from tests.simulation.bare import Swarm
from tests.simulation.masked_observer import MaskedObserver, MaskedSession, session_of, sessions_of
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule, remembered

EVERYBODY = 0b11111


def _observed(swarm: Swarm, *colluders: int) -> MaskedSession:
    """Members are in key order, so that a member's number is its index."""
    keys = tuple(member.participant.me for member in swarm.members)
    messages = [message for _, _, message in swarm.transcript]
    offers = tuple((("unit", number, 0),) for number in range(len(keys)))
    dropouts = swarm.schedule.scheme.tolerance.dropouts
    told = frozenset(keys[number] for number in colluders)
    return session_of(messages, swarm.members[0].participant.sid, keys, offers, dropouts, told)


@cache
def _crashed(layout: int) -> list[Swarm]:
    """Kills the last member at each of its sends."""
    with remembered():
        sends = Swarm(Schedule(7, 5, layout, 1)).run().members[4].sends
        crashes = [(Crash(4, at_send),) for at_send in range(1, sends + 1)]
        return [Swarm(Schedule(7, 5, layout, 1, crashes=each)).run() for each in crashes]


@pytest.mark.parametrize("layout", [EVERYBODY_ADDS, REDUCERS])
@pytest.mark.parametrize("colluders", [(), (0, 1), (0, 4)])
def test_only_the_sum_of_who_is_included_is_determined(layout, colluders):
    sessions = [_observed(swarm, *colluders) for swarm in _crashed(layout)]
    for session in sessions:
        assert MaskedObserver([session]).exposed() == [], session
    ended = [session for session in sessions if session.included]
    assert {session.included for session in ended} == {EVERYBODY, 0b01111}
    assert all(MaskedObserver([session]).knows(session, session.included) for session in ended)


@pytest.mark.parametrize("layout", [EVERYBODY_ADDS, REDUCERS])
def test_planted_fault_without_self_masks_those_left_out_would_be_bare(layout):
    """These runs include a vector that was sent but left out: else the test above shows nothing."""
    swarms = _crashed(layout)
    assert any(isinstance(message, Masked) for swarm in swarms for _, _, message in swarm.transcript)
    left_out = [s for s in map(_observed, swarms) if s.included == 0b01111 and s.sent == EVERYBODY]
    assert left_out
    for session in left_out:
        bare = replace(session, self_masks=EVERYBODY)
        assert MaskedObserver([bare]).exposed() == [{("unit", 4, 0): 1}]


SEEDS = [seed for seed in range(10) if random_plan(seed).aggregation.masked is not None]
WITHOUT_A_RESULT, LEAVING_OUT = (25, 30, 36), (121, 128)
"""Seeds with sessions that leave members out or have no result; the last test shows that they still do."""


@pytest.mark.sampled("3", "4", "9", "25", "36")
@pytest.mark.parametrize("seed", [*SEEDS, *WITHOUT_A_RESULT, *LEAVING_OUT])
def test_random_schedules_of_whole_nodes_expose_nobody(seed):
    """Takes all masked sessions of a run together: repeated offers of a member would show."""
    sessions = _sessions(seed)
    assert MaskedObserver(sessions).exposed() == [], f"seed {seed}"


def test_some_of_these_schedules_leave_members_out_or_have_no_result():
    """The test above would show nothing if every session ended well."""
    sent_in_vain = [
        session for seed in WITHOUT_A_RESULT for session in _sessions(seed) if not session.included
    ]
    assert any(session.sent for session in sent_in_vain)
    ended = [session for seed in LEAVING_OUT for session in _sessions(seed) if session.included]
    assert any(session.sent & ~session.included for session in ended)
    bare = [replace(session, self_masks=session.sent) for session in ended]
    assert MaskedObserver(bare).exposed() != []


@cache
def _sessions(seed: int) -> list[MaskedSession]:
    plan = random_plan(seed)
    masked = plan.aggregation.masked
    assert masked is not None
    return sessions_of(Network(plan, seed).run(), masked.dropouts)
