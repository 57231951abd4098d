"""The machines' tables are complete and minimal: all that happens is in them, and all in them happens.

A machine that takes a step outside its table fails at once (protocol.transitions); this is the converse.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from protocol.errors import RemoteProtocolError
from protocol.invitation.messages import Standing
from protocol.wire.masked_messages import Propose
from protocol.wire.messages import Hello
from scenarios.simulator.plans import random_plan
from tests import parts
from tests.parts import heard
from tests.simulation import mutations, test_runs
from tests.simulation.bare import Swarm
from tests.simulation.runs import run
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Schedule, chaos, remembered
from tests.simulation.test_masked_crashes import crash_everywhere
from tests.simulation.test_masked_lies import LIAR, WrongMaskKey, truth
from tests.streams.schedule import World
from tests.tables import Taken, noted, tables
from tests.unit.protocol.invitation import test_inviter_and_joiner
from tests.unit.protocol.relay import test_rooms
from tests.unit.protocol.swarm import test_node
from tests.unit.protocol.swarm.recovery import test_catch_up

OUTRANKED = (28, 35)
"""Seeds of plans in which a newcomer has a lower key than the coordinator that holds a Ready."""


def of_nodes() -> None:
    """Runs whole nodes under all kinds of faults."""
    for seed in (*range(20), *OUTRANKED):
        run(random_plan(seed), seed)
    run(test_runs.plan_of(), 3)
    a_session_starts_while_a_base_is_fetched()
    a_newer_base_comes_while_a_step_waits()
    a_source_holds_no_more_the_base_that_is_fetched()


def a_newer_base_comes_while_a_step_waits() -> None:
    one = test_node.node(test_node.ONE, sums=9, by_steps=True)
    one.offer(parts.vector(1), bytes(32), parts.NOW)
    one.adopted(parts.base_of(parts.vector(7), 1), parts.NOW)


def a_source_holds_no_more_the_base_that_is_fetched() -> None:
    better = test_catch_up.BETTER
    held = test_catch_up.catch_up(two=better, three=better, four=better)
    held.look(parts.NOW)
    beyond = test_catch_up.base(3, 9)
    held.shows(parts.announce(test_catch_up.KEYS[1], base=beyond), parts.NOW)


def a_session_starts_while_a_base_is_fetched() -> None:
    two, readys = test_node.asking()
    better = parts.base_of(parts.vector(7), 1)
    for key in (test_node.ONE, test_node.THREE):
        said = parts.announce(key, base=better, counter=parts.COUNTER + 5000)
        heard(two, Hello(said, bytes(16), False, parts.PARAMETERS), parts.NOW)
    heard(two, parts.group_of(readys, test_node.ONE), parts.NOW)


def of_masked_sessions() -> None:
    """Runs masked sessions with losses, deaths at every send, a wrong mask key, and early proposals."""
    with remembered():
        for seed in range(100):
            Swarm(chaos(seed)).run()
        crash_everywhere(Schedule(4, 4, EVERYBODY_ADDS, 1))
        for seed in range(4):
            Swarm(Schedule(seed, 5, REDUCERS), {LIAR: truth}, kind=WrongMaskKey).run()
    run(test_runs.plan_of(), 3)
    messages = mutations.real_messages(EVERYBODY_ADDS)
    here = mutations.machine(EVERYBODY_ADDS)
    mutations.begin(here, messages)
    for message in messages:
        if isinstance(message, Propose):
            with suppress(RemoteProtocolError):  # those of the views before
                here.receive(message, parts.NOW)


def of_rooms() -> None:
    """Opens a room of a relay for each way in which a visit and a room may end."""
    leave, dismiss = test_rooms.leave, test_rooms.dismiss
    for end in (leave, dismiss, test_rooms.be_late, test_rooms.close):
        end(test_rooms.visited())
    for end in (leave, dismiss, test_rooms.close):
        end(test_rooms.proved())


def of_invitations() -> None:
    """Brings invitations to each of their ends."""
    meet = test_inviter_and_joiner
    meet.test_an_answer_that_was_lost_is_told_again(Standing.CONFIRMED)
    meet.test_the_closed_list_is_answered_and_the_answer_is_kept(Standing.DECLINED)
    meet.test_whose_data_do_not_fit_says_nothing_else_and_may_come_again()
    meet.test_three_wrong_codes_burn_it_for_the_right_one_too()
    meet.test_who_accepts_after_the_list_was_closed_comes_too_late()
    meet.test_the_second_user_of_a_code_is_told_and_so_is_the_inviter()
    meet.test_an_acceptance_that_was_lost_is_made_again()


def of_streams() -> None:
    """Relayed streams in all kinds of weather."""
    for seed in range(60):
        World(seed).run()


CASES: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "nodes": (
        of_nodes,
        (
            "aggregation.additive.machine.STEPS",
            "swarm.phases.STEPS",
            "swarm.meeting.group_seeker.STEPS",
            "swarm.meeting.discovery.STEPS",
            "swarm.recovery.catch_up.STEPS",
        ),
    ),
    "masked sessions": (
        of_masked_sessions,
        (
            "aggregation.masked.machine.STEPS",
            "aggregation.masked.rounds.STEPS",
            "aggregation.masked.release.STEPS",
            "aggregation.masked.view_change.STEPS",
        ),
    ),
    "invitations": (of_invitations, ("invitation.inviter.STEPS", "invitation.joiner.STEPS")),
    "streams": (of_streams, ("relay.stream.STEPS",)),
    "rooms": (of_rooms, ("relay.rooms.STEPS",)),
}


def told(steps: Iterable[Taken]) -> list[str]:
    return sorted(f"{type(phase).__module__}: {phase.name}, {event.name}" for phase, event in steps)


def test_every_table_of_a_machine_is_tried():
    assert sorted(f"protocol.{name}" for _, names in CASES.values() for name in names) == sorted(tables())


@pytest.mark.sampled("invitations", "rooms")
@pytest.mark.parametrize("case", CASES)
def test_what_happens_is_what_the_tables_say(case, monkeypatch: pytest.MonkeyPatch):
    happen, names = CASES[case]
    taken = noted(monkeypatch)
    happen()
    steps = {step for name in names for step in tables()[f"protocol.{name}"]}
    kinds = {type(phase) for phase, _ in steps}
    assert told(steps) == told(step for step in taken if type(step[0]) in kinds)
