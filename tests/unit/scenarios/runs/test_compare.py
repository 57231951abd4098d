"""Runs side by side: means, differences seed by seed, and what is configured differently."""

import json
from pathlib import Path

import pytest

from node.system.errors import ConfigError
from scenarios.__main__ import main
from scenarios.runs.compare import compared_json, compared_table, comparison, notes, read_run

FIRST = {"a": {0: 0.5, 1: 0.7, 2: 0.9}, "b": {0: 0.1, 1: 0.2, 2: 0.3}}
OTHER = {"a": {1: 0.71, 2: 0.912, 3: 0.1}, "c": {1: 0.4, 2: 0.5}}


def written(folder: Path, arms: dict[str, dict[int, float]], rate: float = 0.1) -> Path:
    folder.mkdir()
    figures = {
        arm: {"seeds": [{"seed": seed, "figures": [0.0, last]} for seed, last in own.items()]}
        for arm, own in arms.items()
    }
    configured = {arm: {"train": {"rate": rate}} for arm in arms}
    result = {"scenario": "small", "arms": figures, "configuration": {"arms": configured}}
    (folder / "result.json").write_text(json.dumps(result))
    return folder


@pytest.fixture
def runs(tmp_path: Path):
    return [read_run(written(tmp_path / "one", FIRST)), read_run(written(tmp_path / "two", OTHER, 0.2))]


def test_differences_are_those_of_the_seeds_in_common_and_of_the_configuration(runs, tmp_path):
    first, other = comparison(runs)["a"]
    assert first.mean.mean == pytest.approx(0.7)
    assert other.mean.mean == pytest.approx((0.71 + 0.912 + 0.1) / 3)
    assert (other.difference.mean, other.difference.seeds) == (pytest.approx(0.011), 2)
    assert not other.difference.above  # t for one degree of freedom: 12.7 * 0.001 > 0.011
    assert first.difference.mean == 0
    found = comparison(runs)
    assert list(found) == ["a", "b", "c"]
    assert found["b"][1] is None
    assert found["c"][0] is None
    assert found["c"][1].difference is None
    assert notes(runs) == [f"{tmp_path / 'two'}, a: other train.rate (0.1, not 0.2)"]


def test_a_clear_difference_is_marked_and_one_seed_is_none(tmp_path):
    better = {"a": {seed: figure + 0.1 for seed, figure in FIRST["a"].items()}}
    runs = [read_run(written(tmp_path / "one", FIRST)), read_run(written(tmp_path / "two", better))]
    table = compared_table(runs)
    assert table.headings[0] == "arm"
    assert table.rows[0][-1].startswith("+0.1 ± ")
    assert table.rows[0][-1].endswith(" *")
    assert table.rows[1][-2:] == ("none", "none")
    assert compared_json(runs)["arms"]["a"][1]["difference"]["clear"] is True
    assert notes(runs) == []
    runs = [read_run(written(tmp_path / str(first), {"a": {first: 0.1, first + 1: 0.2}})) for first in (0, 1)]
    assert comparison(runs)["a"][1].difference is None


def test_the_command_prints_a_table_or_json(tmp_path, capsys):
    folders = [str(written(tmp_path / "one", FIRST)), str(written(tmp_path / "two", OTHER) / "result.json")]
    assert main(["compare", *folders]) == 0
    assert "0.7 ± 0.5" in capsys.readouterr().out
    assert main(["compare", "--json", *folders]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["scenario"] for run in told["runs"]] == ["small", "small"]
    assert told["arms"]["a"][1]["difference"]["seeds"] == 2


@pytest.mark.parametrize("arms", [{"a": {0: 0.1}}, {"a": {}}])
def test_a_run_without_seeds_is_one_line(tmp_path, arms):
    with pytest.raises(ConfigError, match="holds no arms with figures by seed"):
        read_run(written(tmp_path / "one", arms))
