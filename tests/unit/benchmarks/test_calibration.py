import json
from pathlib import Path

import pytest

from benchmarks.__main__ import line, main
from benchmarks.calibration import compare_calibrations
from benchmarks.spec import figure


def test_the_noise_at_the_same_stated_budget_and_the_ratio_at_100_releases_only():
    found = {one.figure: one for one in compare_calibrations(20.0, 100)}
    assert found["linear-classic / exact"].median == pytest.approx(9.86, abs=0.005)
    assert found["linear-classic / exact"].holds
    assert found["noise, exact"].median == pytest.approx(2 * 2.90, abs=0.01)
    assert found["noise, linear-classic"].median == pytest.approx(2 * 28.58, abs=0.01)
    assert found["proved eps, linear-classic"].median == pytest.approx(1.34, abs=0.005)
    assert found["proved eps, exact"].median == pytest.approx(20, rel=1e-9)
    assert [one.at_least for one in compare_calibrations(8.0, 10) if one.at_least is not None] == []
    assert [one.at_least for one in compare_calibrations(8.0, 100) if one.at_least is not None] == [8.0]


def test_quick_calibration_gives_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["calibration", "--quick", "--repeats", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    ratios = [one for one in figures if one["at_least"] == 8]
    assert {one["case"] for one in ratios} == {f"T=100 eps={epsilon}" for epsilon in (1, 5, 8, 10, 20)}
    assert all(one["holds"] for one in ratios)
    assert len(figures) == 5 * 15 + 2
    assert "✓ at least 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("at_most", "at_least", "holds", "said"),
    [
        (None, None, None, ""),
        (2.0, None, True, "✓ at most 2"),
        (None, 2.0, True, "✓ at least 2"),
        (1.9, None, False, "✗ at most 1.9"),
        (None, 2.1, False, "✗ at least 2.1"),
        (3.0, 2.1, False, "✗ at most 3, at least 2.1"),
    ],
)
def test_a_target_from_either_side(at_most, at_least, holds, said):
    found = figure("b", "case", "name", "s", [2.0], at_most, at_least=at_least)
    assert found.holds is holds
    assert line(found).endswith(said)
    assert said or "✓" not in line(found)
