"""The exact shift of words by a record: through zero of the ring, at the bound, and bad arguments."""

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.audits.shifts import shift


def words(*values):
    return np.array(values, dtype=np.int64).astype(np.uint32)


def test_a_shift_is_counted_through_zero_and_exactly():
    offered, without = words(3, -2, 5), words(0, 2, 5)
    found = shift(offered, without, radius=5.0, unit=1.0)
    assert (found.squared, found.most, found.is_allowed, found.share) == (25, 25, True, 1.0)
    assert not shift(words(3, -2, 6), without, 5.0, 1.0).is_allowed


def test_the_bound_is_c_over_g_without_any_rounding():
    least, many = words(0), words(2**30)
    assert shift(many, least, radius=1.0, unit=2.0**-30).is_allowed
    assert not shift(words(2**30 + 1), least, radius=1.0, unit=2.0**-30).is_allowed
    assert shift(many, least, radius=0.1, unit=2.0**-32).most == (Fraction(0.1) * 2**32) ** 2


def test_large_shifts_do_not_overflow():
    found = shift(words(*([2**31 - 1] * 8)), words(*([0] * 8)), radius=1.0, unit=1.0)
    assert found.squared == 8 * (2**31 - 1) ** 2
    assert not found.is_allowed
    assert found.share > 2**32


def test_what_are_no_words_or_a_bound_of_nothing_is_refused():
    one = words(1)
    for offered, without in ((words(1, 2), one), (one.astype(np.int64), one), (one, one.astype(np.float64))):
        with pytest.raises(ValueError, match=r"are not allowed: uint32 \(d,\)"):
            shift(offered, without, 1.0, 1.0)
    for radius, unit in ((0.0, 1.0), (1.0, 0.0)):
        with pytest.raises(ValueError, match="is not allowed: a number above 0"):
            shift(one, one, radius, unit)
