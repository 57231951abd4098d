"""The time for bulk that is on its way: given once a view, and to no member twice."""

import pytest

from protocol.aggregation.masked.bodies import Bodies
from protocol.aggregation.masked.layout import Layout

ONE, TWO = b"1" * 32, b"2" * 32
NOW, SECONDS = 1000.0, 80.0


def bodies(*arriving: bytes) -> Bodies:
    found = Bodies(SECONDS)
    for key in arriving:
        found.arriving(key)
    return found


def test_a_view_goes_on_only_if_something_of_each_has_come():
    assert not bodies(ONE).give(0, (ONE, TWO), NOW)
    assert bodies(ONE, TWO).give(0, (ONE, TWO), NOW)


def test_a_view_goes_on_once_whatever_arrives():
    found = bodies(ONE)
    assert found.give(0, (ONE,), NOW)
    found.arriving(ONE)
    assert not found.give(0, (ONE,), NOW + SECONDS)


def test_without_time_for_bulk_no_view_goes_on():
    found = Bodies(0.0)
    found.arriving(ONE)
    assert not found.give(0, (ONE,), NOW)


@pytest.mark.parametrize("left_s", [SECONDS, SECONDS * 7 / 8])
def test_who_had_the_time_has_it_in_no_later_view(left_s: float):
    found = bodies(ONE, TWO)
    assert found.give(0, (ONE, TWO), NOW)
    found.left(0, (ONE,), NOW + left_s)
    assert not found.give(1, (ONE, TWO), NOW + SECONDS)
    assert found.give(1, (TWO,), NOW + SECONDS)


@pytest.mark.parametrize(("view", "left_s"), [(0, SECONDS / 2), (1, SECONDS)], ids=["cut-short", "another"])
def test_who_did_not_have_it_whole_has_it_again(view: int, left_s: float):
    """One member may end a view early for all."""
    found = bodies(ONE)
    assert found.give(0, (ONE,), NOW)
    found.left(view, (ONE,), NOW + left_s)
    assert found.give(2, (ONE,), NOW + left_s)


def test_a_member_sends_two_vectors_or_one_to_each_if_all_add_up():
    assert Layout(99_999, 5).sent_bytes == 2 * 400_000 * 4 / 5
    assert Layout(99, 5).sent_bytes == 400 * 4
