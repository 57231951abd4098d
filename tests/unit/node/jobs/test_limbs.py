"""Numbers in limbs: totals are exact in units, modulo 2^72, whatever the order of the members."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.jobs.limbs import (
    MEMBERS,
    counts_of,
    doubles_of,
    limbs_of,
    sums_from_here,
    to_numbers,
    to_state,
    to_words,
)

UNIT = 2.0**-40
_numbers = st.floats(-1e7, 1e7)


@given(st.lists(st.lists(_numbers, min_size=3, max_size=3), min_size=1, max_size=MEMBERS))
def test_a_total_is_the_sum_of_the_members_whole_units_rounded_once(members):
    words = [to_words(np.array(each), UNIT) for each in members]
    whole = [
        sum(Fraction(float(np.rint(one / UNIT))) for one in column) for column in zip(*members, strict=True)
    ]
    for order in (words, words[::-1]):
        total = np.zeros(9, np.uint32)
        for each in order:
            total += each
        assert to_numbers(limbs_of(total), UNIT).tolist() == [float(one * Fraction(UNIT)) for one in whole]


def test_the_most_members_with_the_largest_numbers_do_not_wrap_around():
    for sign in (1, -1):
        total = np.zeros(3, np.uint32)
        for _ in range(MEMBERS):
            total += to_words(np.array([sign * 1e300]), UNIT)
        assert to_numbers(limbs_of(total), UNIT)[0] == pytest.approx(sign * 2.0**71 * UNIT, rel=1e-15)


def test_sums_over_a_place_and_all_later_ones_are_exact():
    values = np.array([[1e6, -1e-12, 3.0, -(2.0**20)], [0.0, 5.0, -5.0, 2.0**-40]])
    limbs = limbs_of(to_words(values, UNIT)).reshape(2, 4, 3)
    exact = [
        [
            float(sum(Fraction(float(np.rint(one / UNIT))) for one in row[place:]) * Fraction(UNIT))
            for place in range(4)
        ]
        for row in values
    ]
    assert to_numbers(sums_from_here(limbs), UNIT).tolist() == exact


def test_a_base_keeps_every_bit_in_whole_numbers_that_float32_holds():
    values = np.array([0.0, -0.0, 1 / 3, -1e308, 5e-324])
    counts = np.array([0, 1, 2**16, 2**32 - 1], np.uint32)
    state = to_state(values)
    assert state.max() < 2**16
    assert doubles_of(state).tobytes() == values.tobytes()
    assert counts_of(to_state(counts)).tolist() == counts.tolist()
