"""Cells, fits and targets of the benchmark of secure sums; tests/e2e covers its processes."""

import json
import math

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.secagg import benchmark, processes
from benchmarks.secagg.cells import (
    GLOO,
    MASKED,
    RING,
    SEED,
    SHORT,
    Cell,
    Result,
    RoundCost,
    Sample,
    exponents,
    slope,
)
from benchmarks.secagg.gloo import ring_bytes
from node.system.errors import UserError


def result(cell: Cell, cost: float = 1.0) -> Result:
    """Makes two rounds of a cell: the second costs each peer a little more."""
    rounds = [
        RoundCost(
            wall_s=cost * late,
            samples=[
                Sample(
                    cpu_s=0.01 * cost * late,
                    sent={"group": 10, "sums": int(1000 * cost * late)},
                    peak_bytes=4 * cell.d * 5,
                    aggregate_s=cost * late / 2,
                    mean=b"m",
                    error=None if member else 1e-7 * late,
                )
                for member in range(cell.n)
            ],
        )
        for late in (1, 3)
    ]
    return Result(cell, rounds)


def test_an_exponent_is_the_slope_of_the_logarithms() -> None:
    assert slope([(n, 7.0 * n**1.5) for n in (4, 10, 20)]) == pytest.approx(1.5)
    assert slope([(4, 3.0), (10, 3.0)]) == pytest.approx(0)
    # Least squares, by hand: ln y = 0, 2, 1 at ln x = 0, 1, 2.
    assert slope([(1.0, 1.0), (math.e, math.e**2), (math.e**2, math.e)]) == pytest.approx(0.5)
    assert math.isnan(slope([(4, 0.0), (10, 1.0)]))


def test_exponents_are_fitted_for_each_protocol_and_dimension() -> None:
    """Masked grows linearly here, seed quadratically; a single size has no exponent."""
    found = exponents(
        [
            *(result(Cell(MASKED, n, 100), float(n)) for n in (4, 10, 20)),
            *(result(Cell(SEED, n, 100), float(n * n)) for n in (4, 10)),
            result(Cell(SEED, 4, 1000)),
        ]
    )
    assert [(fit.protocol, fit.d) for fit in found] == [(MASKED, 100), (SEED, 100)]
    assert [fit.cpu_s for fit in found] == pytest.approx([1, 2])
    assert [fit.bytes_sent for fit in found] == pytest.approx([1, 2], abs=0.01)


def test_cells_stand_side_by_side_and_leave_out_what_a_protocol_is_not_for() -> None:
    protocols = (RING, SEED, MASKED, GLOO)
    assert [cell.protocol for cell in benchmark.cells(protocols, [4], [1000])] == list(protocols)
    assert [cell.protocol for cell in benchmark.cells(protocols, [3], [1000])] == [RING, SEED, GLOO]
    ring = [
        cell
        for cell in benchmark.cells(protocols, benchmark.SIZES, benchmark.DIMENSIONS)
        if cell.protocol == RING
    ]
    assert Cell(RING, 10, 10_000_000) in ring
    assert [cell.d for cell in ring if cell.n == 20] == [100_000, 1_000_000]


def test_a_record_has_medians_and_their_spread() -> None:
    record = result(Cell(SEED, 4, 1000)).record()
    assert (record["protocol"], record["n"], record["d"], record["rounds"]) == (SEED, 4, 1000, 2)
    assert (record["wall_s"], record["wall_s_min"], record["wall_s_max"]) == (2, 1, 3)
    assert (record["cpu_s"], record["cpu_s_max"]) == pytest.approx((0.02, 0.03))
    assert (record["bytes_sent"], record["bytes_sent_min"], record["bytes_sent_max"]) == (2010, 1010, 3010)
    assert record["bytes_by_phase"] == {"group": 10, "sums": 2000}
    assert (record["peak_bytes"], record["peak_vectors"]) == (20_000, 5)
    assert record["max_error"] == pytest.approx(3e-7)
    assert record["max_error_of_bound"] == pytest.approx(0.75e-7)


def test_the_error_is_that_of_the_worst_coordinate_and_a_ring_sends_nearly_twice_the_vector():
    cell = Cell(SEED, 3, 50)
    vectors = np.array([cell.vector(member, 7) for member in range(3)])
    assert np.abs(vectors).max() <= 4
    assert len({row.tobytes() for row in vectors}) == 3
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    assert cell.error(mean, 7) < 3e-7
    mean[17] += 0.25
    assert cell.error(mean, 7) == pytest.approx(0.25, abs=1e-6)
    assert ring_bytes(Cell(GLOO, 4, 1000)) == 6000


def test_the_file_grows_with_each_cell_and_a_failed_one_does_not_end_the_run(tmp_path, capsys, monkeypatch):
    file = tmp_path / "cells.json"
    seen: list[int] = []

    def measured(cell: Cell, rounds: int) -> Result:
        seen.append(len(json.loads(file.read_text())) if file.exists() else 0)
        if cell.protocol == RING:
            raise UserError("peer 3 ended with exit status 1: no memory")
        return result(cell, 0.02 if cell.protocol == GLOO else 0.21)

    monkeypatch.setattr(processes, "measure", measured)
    assert main(["secagg", "--n", "4,10", "--d", "1000000", "--json", str(file)]) == 1
    assert seen == [0, 0, 1, 2, 3, 4, 4, 5, 6, 7]
    said = capsys.readouterr()
    assert said.err == (
        "benchmarks: secagg: 2 cells failed: additive-ring n=4 d=1000000, additive-ring n=10 d=1000000\n"
    )
    assert "failed: peer 3 ended" in said.out
    assert "wall / gloo's                      10.5 ✗ at most 10" in said.out
    assert "max error / B                   7.5e-08 ✓ at most 1e-06" in said.out
    assert said.out.count("grows with n") == 4
    records = json.loads(file.read_text())
    assert [(one["protocol"], one["n"]) for one in records] == [
        (protocol, n) for n in (4, 10) for protocol in (SEED, MASKED, SHORT, GLOO)
    ]
    assert all(one["machine"] and one["versions"]["numpy"] for one in records)
