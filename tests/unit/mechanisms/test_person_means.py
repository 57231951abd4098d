"""What persons add to sums: means on a grid, no longer than the longest row, of the own rows alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.person_means import person_means

UNIT = 2.0**-6


def summed(places, amounts, persons, size=4, unit=UNIT, longest=1.0):
    return person_means(
        np.array(places), np.array(amounts, float), np.array(persons), size, unit=unit, longest=longest
    )


def test_means_by_hand():
    """A person with three rows, two of them at place 1; and one with a row at two places."""
    found = summed(
        [[0, 1], [1, 2], [1, 1], [3, 2]], [[0.5, 0.5], [1, 0], [0.25, 0.25], [-1, 0]], [0, 0, 0, 1]
    )
    assert found.tolist() == [round(0.5 / 3 * 64), round(2 / 3 * 64), 0, -64]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=20))
def test_a_person_moves_sums_by_whole_units_at_most_as_long_as_a_row(rows):
    """Each row is one at a place, positive or not: rounding may make a mean longer than that."""
    persons = np.array([person for person, _, _ in rows])
    places = np.array([[place] for _, place, _ in rows])
    amounts = np.array([[1.0 if up else -1.0] for _, _, up in rows])

    def of(kept):
        own = np.unique(persons[kept], return_inverse=True)[1]
        return person_means(places[kept], amounts[kept], own, 4, unit=UNIT, longest=1.0)

    whole = of(np.ones(len(rows), bool))
    for person in set(persons.tolist()):
        moved = whole - of(persons != person)
        assert np.array_equal(moved, of(persons == person))
        assert np.linalg.norm(moved) <= 64


def test_a_mean_that_rounding_made_longer_is_shortened():
    """Sixteen places with a quarter each are 1 long; on a coarse grid each rounds to a third more."""
    places, unit = np.arange(16)[:, None], 1 / 3
    found = person_means(places, np.full((16, 1), 4.0), np.zeros(16, int), 16, unit=unit, longest=1.0)
    assert np.linalg.norm(found) * unit <= 1
    assert found.tolist() == [0.0] * 16, "rounded towards zero"


@pytest.mark.parametrize("count", [0, 1])
def test_nobody_adds_nothing(count):
    nothing = np.zeros((0, 1))
    found = person_means(nothing.astype(int), nothing, np.zeros(0, int), 3 + count, unit=UNIT, longest=1.0)
    assert found.tolist() == [0.0] * (3 + count)
