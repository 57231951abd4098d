"""What is not printed: no cell of few rows can be told from what is."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.stats.disclosure import LEAST_CELL, Hidden, bins, cell, hidden, hidden_means, last_place, part_of

_tables = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(0, 12), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@given(_tables)
def test_no_line_with_its_total_has_just_one_hidden_and_no_small_count_is_printed(rows):
    table = np.array(rows)
    marks = hidden(table)
    whole = np.block([[table, table.sum(1, keepdims=True)], [table.sum(0, keepdims=True), table.sum()]])
    assert not ((whole > 0) & (whole < LEAST_CELL) & ~marks).any()
    for line, known in zip((*marks, *marks.T), (*whole, *whole.T), strict=True):
        assert line.sum() != 1
        if line.any() and not line[-1]:
            ranges = [range(1, 5) if few else range(5, 50) for few in known[line] < LEAST_CELL]
            assert sum(map(min, ranges)) < known[line].sum() < sum(map(max, ranges))


def test_the_second_that_is_hidden_is_the_smallest_and_no_total_if_possible():
    assert hidden(np.array([[3, 90, 40, 0]])).tolist() == [[True, False, True, False, False]] * 2
    assert not hidden(np.array([[5, 0, 9]])).any()
    assert hidden(np.array([[3, 0, 0]]))[0].tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("rows", "groups", "hide"),
    [
        ([100, 90, 0], 2, [False, False]),
        ([100, 3, 80, 0], 3, [False, True, True]),
        ([3, 100, 3, 0], 3, [True, False, True]),
        ([50, 60, 2], 2, [True, False]),
        ([50, 60, 9], 2, [False, False]),
        ([3, 0], 1, [True]),
        ([7], 0, []),
    ],
)
def test_what_is_left_over_beside_printed_means_are_no_few_rows(rows, groups, hide):
    assert hidden_means(np.array(rows), groups).tolist() == hide


def test_what_stands_in_place_of_a_count():
    assert [cell(3, True), cell(40, True), cell(0, True), cell(40, False)] == ["< 5", "hidden", "hidden", 40]
    assert [part_of(rows, 100) for rows in (100, 97, 90, 3)] == [100, "hidden", 90, "< 5"]
    assert isinstance(cell(3, True), Hidden)


@given(st.lists(st.integers(0, 9), min_size=64, max_size=64))
def test_bars_cover_the_whole_range_each_with_enough_rows(counts):
    found = bins(np.array(counts), 32, LEAST_CELL)
    if not found:
        assert sum(counts) < LEAST_CELL
        return
    assert [found[0][0], found[-1][1]] == [0, 64]
    assert all(stop == start for (_, stop, _), (start, _, _) in pairwise(found))
    assert sum(rows for *_, rows in found) == sum(counts)
    assert min(rows for *_, rows in found) >= LEAST_CELL


@pytest.mark.parametrize(("at_risk", "places"), [([9, 5, 4, 1], 2), ([4], 0), ([9, 9], 2)])
def test_a_curve_ends_where_few_are_at_risk(at_risk, places):
    assert last_place(np.array(at_risk)) == places
