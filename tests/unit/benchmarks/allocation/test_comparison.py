"""The benchmark of RPFL's allocation yields every figure, and checks its options."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.allocation.comparison import EXCESS_AT_MOST, draw_case, excess
from mechanisms.servers import rpfl


def test_a_quick_run_gives_every_figure(tmp_path):
    file = tmp_path / "figures.json"
    assert main(["allocation", "--quick", "--json", str(file)]) == 0
    found = {(entry["case"], entry["figure"]) for entry in json.loads(file.read_text())}
    assert found == {("cost", "excess over the solver"), ("N=1000", "time"), ("N=100000", "time")}


def test_a_worse_allocation_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """An even allocation is worse."""
    weights, caps, budget = draw_case(6, 7)
    assert excess(weights, caps, budget) < EXCESS_AT_MOST
    even = rpfl.allocate([1.0] * 7, caps, budget)
    monkeypatch.setattr("benchmarks.allocation.comparison.allocate", lambda *given: even)
    assert excess(weights, caps, budget) > 1e-3
