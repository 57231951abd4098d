"""Axes whose ticks tell neighbours apart."""

import pytest

from scenarios.study.charts import MAX_TICKS, whole_numbers


@pytest.mark.parametrize(("last", "step"), [(1, 1), (10, 1), (11, 2), (21, 5), (100, 10), (1001, 200)])
def test_ticks_of_whole_numbers_are_whole_numbers_and_few(last, step):
    axis = whole_numbers(last)
    assert (axis["dtick"], axis["tick0"], axis["tickformat"]) == (step, 0, "d")
    assert last // step <= MAX_TICKS
