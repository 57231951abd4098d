"""Cells of a column from counts of three sites, against the rows themselves."""

import numpy as np
import pytest

from node.jobs.additive.cells import PIECES, SUMS, edges_of, grid_of, share_of_rest

LOW, HIGH = -1.0, 10.0


def grid(values, most):
    """The grid after all sums over three sites."""
    sums = []
    for _ in range(SUMS):
        cut = grid_of(LOW, HIGH, sums, most).cut(most)
        sums.append(sum(cut.count(part) for part in np.array_split(values, 3)))
        assert len(sums[-1]) == PIECES
    return grid_of(LOW, HIGH, sums, most)


def cells(values, most=31, least_rows=1):
    values = np.asarray(values, np.float32)
    edges, rows = edges_of(grid(values, most), most, least_rows)
    assert (np.diff(edges) > 0).all()
    assert rows.tolist() == np.bincount(np.searchsorted(edges, values, "right"), minlength=len(rows)).tolist()
    return edges, rows


RNG = np.random.default_rng(5)
SKEWED = RNG.permutation(np.concatenate([np.full(9000, -0.146), RNG.exponential(0.5, 1000)])).astype(
    np.float32
)


def test_rows_are_even_among_cells():
    _, rows = cells(RNG.normal(3, 1, 31_000).clip(LOW, HIGH))
    assert len(rows) in (30, 31)
    assert rows[:-1].min() > 750
    assert np.median(rows) == pytest.approx(1000, abs=30)


def test_a_heavy_value_is_alone_and_the_rest_is_even():
    _, rows = cells(SKEWED)
    assert rows[0] == 9000
    assert len(rows) > 25
    assert rows[1:-1].min() > 0.8 * 1000 / 31


def test_close_values_part_if_they_are_heavy():
    edges, rows = cells([2.0] * 500 + [2.0 + 1e-5] * 500 + list(np.linspace(-1, 10, 100)), most=4)
    assert {500, 501} & set(rows.tolist())
    assert any(2.0 < edge <= np.float32(2.0 + 1e-5) for edge in edges)


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        ([0.0] * 30 + [1.0] * 30 + [2.0] * 30, [0.5, 1.5]),  # in the middle between values
        ([3.0] * 90, []),
        ([], []),
        ([LOW] * 50 + [HIGH] * 50, [4.5]),
    ],
)
def test_few_values_have_a_cell_each(values, edges):
    assert cells(values)[0] == pytest.approx(edges, abs=0.05)


@pytest.mark.parametrize("least_rows", [5, 20, 100])
def test_a_cell_has_the_least_rows(least_rows):
    for values in (
        SKEWED,
        RNG.normal(size=2000).clip(LOW, HIGH),
        np.repeat(np.arange(9.0), np.arange(9) * 7),
    ):
        _, rows = cells(values, least_rows=least_rows)
        assert rows.min() >= least_rows
    assert cells([0.0, 5.0], least_rows=least_rows)[1].tolist() == [2]  # fewer are in one cell


@pytest.mark.parametrize("most", [4, 8, 31])
def test_there_are_never_more_cells(most):
    spikes = RNG.permutation(
        np.concatenate([np.repeat(RNG.uniform(-1, 10, 40), 25), RNG.uniform(-1, 10, 900)])
    )
    assert 1 < len(cells(spikes, most)[1]) <= most


def test_the_share_is_that_of_the_rest():
    heavy, share = share_of_rest(np.array([900, 60, 10, 10, 10, 10]), 4)
    assert (heavy.tolist(), share) == ([True, True, False, False, False, False], 20.0)
