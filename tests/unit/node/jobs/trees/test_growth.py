"""The splits of a level against all cuts, one by one."""

from itertools import product

import numpy as np
import pytest

from node.jobs.trees.growth import PENALTY, Sums, splits
from node.models.additive import cell_columns

COLUMNS = cell_columns([["number", 2], ["category", 3], ["number", 1]], cells=4)
UNIT, RATE = 2.0**-4, 0.3
RNG = np.random.default_rng(17)


def drawn(nodes, rows=80):
    """Sums of rows at random, as a node has them: each row in one cell of each column."""
    slopes, curvatures = (np.zeros((nodes, COLUMNS[-1].places.stop), np.int64) for _ in range(2))
    for node, _ in product(range(nodes), range(rows)):
        cells = [column.start + RNG.integers(0, column.size) for column in COLUMNS]
        slope = RNG.integers(-16, 17) + 6 * (cells[0] % 2)
        slopes[node, cells] += slope
        curvatures[node, cells] += RNG.integers(1, 5)
    return Sums(slopes, curvatures)


def orders(column, slopes, curvatures):
    cells = list(range(column.size))
    if column.kind == "category":
        yield sorted(cells, key=lambda cell: slopes[cell] * UNIT / (curvatures[cell] * UNIT + 10)), set()
    elif column.has_missing:
        yield cells[:-1], set()
        yield cells[:-1], {column.size - 1}
    else:
        yield cells, set()


def best_by_loops(slopes, curvatures):
    """Returns (gain, column, the cells to the left) of the best cut."""

    def part(cells):
        a, b = (sum(int(of[cell]) for cell in cells) * UNIT for of in (slopes[inside], curvatures[inside]))
        return a * a / (b + PENALTY), b

    best = (0.0, -1, set())
    for place, column in enumerate(COLUMNS):
        inside, everything = column.places, set(range(column.size))
        for order, more in orders(column, slopes[inside], curvatures[inside]):
            for cut in range(1, len(order)):
                left = set(order[:cut]) | more
                (first, a), (second, b), (whole, _) = map(part, (left, everything - left, everything))
                if a >= 1 and b >= 1 and first + second - whole > best[0] + 1e-9:
                    best = first + second - whole, place, left
    return best


def test_the_best_of_all_cuts_is_found():
    sums = drawn(nodes=12)
    found = splits(sums, COLUMNS, UNIT, RATE)
    assert len(set(found.columns.tolist())) > 1
    for node in range(12):
        gain, column, left = best_by_loops(sums.slopes[node], sums.curvatures[node])
        assert found.columns[node] == column
        assert set(np.flatnonzero(found.left[node])) == left
        places = COLUMNS[column].places
        mask = found.left[node, : COLUMNS[column].size]
        for side, value in zip((mask, ~mask), found.values[node], strict=True):
            slope, curvature = (
                (of[node, places] * side).sum() * UNIT for of in (sums.slopes, sums.curvatures)
            )
            assert value == pytest.approx(-RATE * slope / (curvature + PENALTY))
        assert gain > 0


def test_rows_without_a_difference_are_not_parted():
    sums = Sums(np.zeros((1, 13), np.int64), np.full((1, 13), 99))
    assert splits(sums, COLUMNS, UNIT, RATE).columns.tolist() == [-1]


def test_a_side_has_some_curvature():
    sums = Sums(np.array([[-8, 8, 0, 0, 0]]), np.array([[15, 99, 0, 0, 0]]))  # 15 units are less than 1
    assert splits(sums, cell_columns([["number", 2]], cells=4), UNIT, RATE).columns.tolist() == [-1]
