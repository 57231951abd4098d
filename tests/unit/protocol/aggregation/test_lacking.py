"""What is due of whom: who lacks another's message owes nothing, and is in dispute with that one."""

from __future__ import annotations

import pytest

from protocol.actions import Due, Withheld
from protocol.aggregation.lacking import owed
from protocol.wire import signing
from protocol.wire.masked_messages import Lacking
from tests.simulation.mutations import OTHERS, machine
from tests.simulation.schedules import REDUCERS

ONE, TWO, THREE, FOUR = sorted(OTHERS)
HERE = machine(REDUCERS).participant


def due(due: Due, keys: tuple[bytes, ...], **lacks: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], object]:
    """Returns (who owes it, who is in dispute with whom), if the named members lack messages of these."""
    names = {"one": ONE, "two": TWO, "three": THREE, "four": FOUR}
    said = {
        names[name]: signing.sign(
            Lacking(HERE.sid, names[name], sum(1 << HERE.numbers[key] for key in whose)), OTHERS[names[name]]
        )
        for name, whose in lacks.items()
    }
    found = owed(Withheld(HERE.sid, due, keys), said, HERE)
    return (found.keys, found.disputes) if found is not None else ((), ())


@pytest.mark.parametrize("kind", [Due.TOTAL, Due.ANSWER])
def test_who_lacks_anothers_message_owes_nothing_and_the_two_are_in_dispute(kind):
    assert due(kind, (ONE, TWO), one=(THREE,)) == ((TWO,), ((ONE, THREE),))


@pytest.mark.parametrize("kind", [Due.VECTOR, Due.VOTE])
def test_what_depends_on_nobody_is_due_whatever_somebody_lacks(kind):
    assert due(kind, (ONE,), one=(THREE,)) == ((ONE,), ())


def test_who_has_sent_all_is_in_no_dispute_any_more():
    assert due(Due.ANSWER, (TWO,), one=(THREE,)) == ((TWO,), ())


def test_who_lacks_the_message_of_one_that_is_named_here_is_excused_at_no_cost():
    assert due(Due.ANSWER, (ONE, TWO), one=(TWO,)) == ((TWO,), ())


def test_who_lacks_this_members_message_or_those_of_most_is_not_excused():
    assert due(Due.ANSWER, (ONE, TWO), one=(HERE.me,), two=(ONE, THREE, FOUR)) == ((ONE, TWO), ())


def test_in_a_row_of_members_that_wait_for_the_next_the_last_two_are_in_dispute():
    waits = {"one": (TWO,), "two": (THREE,), "four": (TWO,)}
    assert due(Due.ANSWER, (ONE, TWO, FOUR), **waits) == ((), ((TWO, THREE),))


def test_two_that_say_so_of_each_other_are_in_dispute():
    assert due(Due.ANSWER, (ONE, TWO), one=(TWO,), two=(ONE,)) == ((), ((ONE, TWO), (TWO, ONE)))


def test_if_all_that_is_due_is_excused_by_others_that_wait_nothing_is_known():
    assert owed(None, {}, HERE) is None
    assert due(Due.ANSWER, (ONE,), one=(TWO,), two=(THREE,)) == ((), ())
