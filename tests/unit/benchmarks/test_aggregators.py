"""The benchmark of aggregators yields every figure, and checks its options."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.aggregators import BY_DISTANCES, BY_SORTING, OTHERS


def test_quick_aggregators_give_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["aggregators", "--quick", "--json", str(file)]) == 0
    found = {entry["figure"] for entry in json.loads(file.read_text())}
    for base, family in (
        ("numpy.sort", BY_SORTING),
        ("one distance matrix", BY_DISTANCES),
        ("numpy.mean", OTHERS),
    ):
        assert {base, *family, *(f"{name} / {base}" for name in family)} <= found
    assert "50 x 5000" in capsys.readouterr().out
