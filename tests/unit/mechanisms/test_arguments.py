"""What every function of mechanisms/ refuses, and how it says so."""

from decimal import Decimal

import numpy as np
import pytest

from mechanisms.arguments import at_least_zero, count, positive, probability, share

JUDGES = (positive, at_least_zero, probability, share, count)


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("value", [True, False, np.True_, None, "1", [1], np.ones(1), 1j, Decimal(1)])
def test_what_is_no_number_is_a_type_error_that_names_it(judge, value):
    with pytest.raises(TypeError, match=r"^epsilon = .* is not allowed: a (whole )?number") as raised:
        judge("epsilon", value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("judge", JUDGES[:-1])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float32("nan"), 10**400, -1])
def test_nan_infinity_and_negative_numbers_are_refused_by_all(judge, value):
    with pytest.raises(ValueError, match=r"^epsilon = .* is not allowed: a number"):
        judge("epsilon", value)


@pytest.mark.parametrize(
    ("judge", "inside", "outside"),
    [
        (positive, [5e-324, 1, 1e300, np.float32(0.5)], [0, -0.0]),
        (at_least_zero, [0, 5e-324, 7], [-5e-324]),
        (probability, [1e-300, 0.5, 1 - 2**-53], [0, 1, 1.5]),
        (share, [1e-300, 0.5, 1, 1.0], [0, 1 + 2**-52]),
        (count, [1, 10**30, np.int64(3)], [0, -1]),
    ],
)
def test_the_edges_of_each_range(judge, inside, outside):
    for value in inside:
        assert judge("x", value) == value
        assert type(judge("x", value)) is (int if judge is count else float)
    for value in outside:
        with pytest.raises(ValueError, match=r"^x = .* is not allowed"):
            judge("x", value)
    with pytest.raises(TypeError, match=r"releases = 2\.0 is not allowed: a whole number of at least 1"):
        count("releases", 2.0)
    with pytest.raises(ValueError, match=r"^epsilon = -1\.0 is not allowed: a number above 0$"):
        positive("epsilon", -1.0)
