"""A machine takes only the steps in its table."""

from enum import Enum

import pytest

from protocol.errors import LocalProtocolError
from protocol.transitions import Course, Step
from tests.tables import tables


class Door(Enum):
    OPEN = "open"
    SHUT = "shut"


class Hand(Enum):
    PUSH = "push"
    PULL = "pull"


STEPS = {(Door.OPEN, Hand.PUSH): Step(Door.SHUT, "a noise")}


def test_an_event_leads_where_the_table_says():
    course = Course(STEPS, Door.OPEN)
    assert (course.allows(Hand.PUSH), course.allows(Hand.PULL)) == (True, False)
    course.step(Hand.PUSH)

    assert course.phase is Door.SHUT


@pytest.mark.parametrize(("first", "event"), [(Door.OPEN, Hand.PULL), (Door.SHUT, Hand.PUSH)])
def test_a_step_that_is_not_in_the_table_is_our_own_fault_and_leads_nowhere(first, event):
    course = Course(STEPS, first)
    with pytest.raises(LocalProtocolError, match=f"{event.name} in {first.name} is no step of "):
        course.step(event)

    assert course.phase is first


@pytest.mark.parametrize(("name", "table"), tables().items())
def test_a_machine_begins_in_its_first_phase_and_can_come_to_all(name, table):
    phases = tuple(type(next(iter(table))[0]))
    reached = {phases[0]}
    for _ in phases:
        reached |= {step.to for (before, _event), step in table.items() if before in reached}

    assert reached == set(phases), name
    assert {event for _, event in table} == set(type(next(iter(table))[1])), name
