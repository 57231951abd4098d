"""Each step is a command: what is shown, typed as it stands, does the same."""

import csv
import json
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from node.cli.murmuration import main
from node.desk.folder import Folder
from node.desk.form import Form, Garbage
from node.desk.steps import STEPS
from node.system.errors import ConfigError
from node.task.load import read_task
from tests.unit.node.desk.wards import ward_csv
from tests.unit.node.observe.folders import run_in


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ward_csv(tmp_path / "ward.csv")
    return Folder(tmp_path)


def step(folder: Folder, name: str, **fields):
    return STEPS[name](folder, Form({key.replace("_", "-"): value for key, value in fields.items()}))


def run(folder: Folder, name: str, **fields):
    told = []
    result = step(folder, name, **fields).run(told.append)
    json.dumps([told, result], allow_nan=False)
    return result, told


def typed(folder: Folder, name: str, **fields) -> int:
    """Runs the command that a step shows."""
    words = shlex.split(step(folder, name, **fields).command)
    assert words[0] == "murmuration"
    return main(words[1:])


OUTCOME = {"data": "ward.csv", "target": "outcome", "peers": "3"}
WARD = {**OUTCOME, "leave_out": ["sex"], "epsilon": "2", "out": "w.toml"}
SURVIVAL = {"time": "lactate", "event": "outcome"}
FORMULAS = ["outcome ~ age + lactate", "lactate ~ age"]
STATISTICS = {**OUTCOME, "statistics": True, "by": "sex", "formula": FORMULAS, **SURVIVAL, "out": "s.toml"}


def test_statistics_are_asked_of_columns(folder):
    result, _ = run(folder, "init", **STATISTICS)
    assert result["lines"][0].startswith("s.toml is written: statistics alone")
    asked = read_task(tomllib.loads(Path("s.toml").read_text())).statistics
    assert asked.by == "sex"
    families = ("binomial", "gaussian")
    assert [(each.formula, each.family) for each in asked.models] == [*zip(FORMULAS, families, strict=True)]
    (curves,) = asked.survival
    assert (curves.time, curves.event, curves.by, curves.grid) == ("lactate", "outcome", "sex", 1)
    assert step(folder, "init", **STATISTICS).command == (
        "murmuration init --data ward.csv --by sex --time lactate --event outcome --formula "
        "'outcome ~ age + lactate' --formula 'lactate ~ age' --out s.toml --statistics"
    )
    Path("s.toml").unlink()
    assert typed(folder, "init", **STATISTICS) == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"formula": ["outcome ~ height"]}, "names 'height', which is no column"),
        ({"by": "age"}, "statistics.by = 'age' is refused; allowed: a category"),
        ({"event": ""}, "--time is given without --event"),
        ({"event": "age"}, "statistics.survival.0.event = 'age' is refused; allowed: yes or no"),
    ],
)
def test_statistics_that_cannot_be_computed_are_refused_before_anything_is_written(folder, asked, words):
    for name in ("look", "init"):
        with pytest.raises(ConfigError, match=re.escape(words)):
            run(folder, name, **{**STATISTICS, **asked})
    assert not Path("s.toml").exists()


def test_a_look_tells_the_columns_and_writes_nothing(folder):
    result, _ = run(folder, "look", **WARD)
    assert result["rows"] == 300
    kinds = {"outcome": "target, 2 classes", "age": "number", "lactate": "number"}
    found = {one["name"]: one["kind"] for one in result["columns"]}
    assert found == {**kinds, "sex": "left out", "bed": "left out"}
    assert [path.name for path in folder.path.iterdir()] == ["ward.csv"]


def test_a_proposal_is_the_file_that_the_command_writes(folder, capsys):
    result, told = run(folder, "init", **WARD)
    assert result["task"] == "w.toml"
    assert result["lines"][0].startswith("model: node.models:Linear")
    assert told[0] == {"text": "reading ward.csv"}
    written = (folder.path / "w.toml").read_text()
    assert "epsilon = 2.0" in written
    with pytest.raises(ConfigError, match=r"--out 'w\.toml' exists already"):
        run(folder, "init", **WARD)
    run(folder, "look", **WARD)
    (folder.path / "w.toml").write_text("")
    assert typed(folder, "init", **WARD, force=True) == 0
    assert (folder.path / "w.toml").read_text() == written
    assert step(folder, "init", **WARD, force=True).command == (
        "murmuration init --data ward.csv --target outcome --peers 3 --epsilon 2 --leave-out sex "
        "--out w.toml --force"
    )


def test_findings_come_one_by_one(folder, capsys):
    run(folder, "init", **WARD)
    result, told = run(folder, "check", task="w.toml", data="ward.csv")
    assert result == {"problems": 0, "warnings": sum(one["level"] == "warning" for one in told)}
    assert [one["what"] for one in told][:3] == ["task", "data", "model"]
    assert typed(folder, "check", task="w.toml", data="ward.csv") == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("ok ")]) > 3
    text = (folder.path / "ward.csv").read_text()
    (folder.path / "c.csv").write_text(text.replace("lactate", "laktat_mmol", 1))
    result, told = run(folder, "check", task="w.toml", data="c.csv")
    assert result["problems"] == 1
    assert "lactate" in next(one["text"] for one in told if one["level"] == "problem")


def test_a_report_is_written_beside_the_run(folder):
    run_in(folder.path / "runs" / "ward-1", ended=True)
    result, _ = run(folder, "report", run="runs/ward-1")
    assert result["file"] == "runs/ward-1/report.html"
    assert (folder.path / result["file"]).read_text().startswith("<!DOCTYPE html>")
    assert typed(folder, "report", run="runs/ward-1") == 0


def test_odd_names_stay_one_word(folder, capsys):
    """No value of a form becomes an option, and none leaves its place when a shell reads it."""
    ward_csv(folder.path / "-data $(x) 'of' ward.csv")
    odd = {"data": "-data $(x) 'of' ward.csv", "target": "outcome", "out": "w.toml"}
    assert run(folder, "init", **odd)[0]["task"] == "w.toml"
    (folder.path / "w.toml").unlink()
    assert typed(folder, "init", **odd) == 0
    with pytest.raises(ConfigError, match="has no column '--force'"):
        run(folder, "init", **{**odd, "target": "--force"}, force=True)
    (folder.path / "-t.toml").write_text((folder.path / "w.toml").read_text())
    assert typed(folder, "check", task="-t.toml", data="ward.csv") == 0


def test_images_and_arrays_have_a_task_without_columns(folder):
    for place, name in enumerate(("ill", "well")):
        (folder.path / "scans" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("L", (16, 16), 100 * place).save(folder.path / "scans" / name / f"{number}.png")
    np.savez(folder.path / "a.npz", x=np.random.default_rng(1).normal(size=(40, 3)), y=np.arange(40) % 2)
    for data, classes in (("scans", "2 classes"), ("a.npz", "2 classes")):
        result, _ = run(folder, "look", data=data, target="")
        assert classes in result["headline"]
        assert run(folder, "init", data=data, out=f"{Path(data).stem}.toml")[0]["task"]
    with pytest.raises(ConfigError, match="the classes are the names of the folders"):
        run(folder, "look", data="scans", target="ill")


def test_the_task_s_file_is_named_after_the_data(folder):
    ward_csv(folder.path / "_.csv")
    assert step(folder, "look", data="ward.csv").command.endswith("--out ward.toml")
    assert step(folder, "look", data="_.csv").command.endswith("--out task.toml")


@pytest.mark.parametrize("name", sorted(STEPS))
def test_nothing_outside_the_folder_is_touched(folder, name):
    outside = folder.path.parent / "outside.csv"
    ward_csv(outside)
    (folder.path / "link.csv").symlink_to(outside)
    ward_csv(folder.path / "t.toml")
    for written in ("../outside.csv", str(outside), "link.csv"):
        fields = {"data": written, "run": written, "task": "t.toml", "out": ""}
        with pytest.raises(ConfigError, match="leads out of the folder"):
            step(folder, name, **fields)
    with pytest.raises(Garbage):
        step(folder, name)


def test_predictions_are_written_into_the_folder(folder, monkeypatch):
    from tests.unit.node.desk.models import saved_model  # noqa: PLC0415 - loads torch

    run(folder, "init", **WARD)
    saved_model(folder.path / "run", folder.path / "w.toml")
    result, _ = run(folder, "predict", run="run", data="ward.csv")
    assert result["file"] == "ward-predictions.csv"
    with (folder.path / result["file"]).open() as file:
        written = list(csv.reader(file))
    assert len(written) == 301
    assert list(result["columns"]) == written[0]
    assert [list(row) for row in result["rows"]] == written[1:6]
    assert any(line.startswith("predictions: 300 rows") for line in result["lines"])
    assert typed(folder, "predict", run="run", data="ward.csv") == 0
    with pytest.raises(ConfigError, match="is not a file of predictions"):
        run(folder, "predict", run="run", data="ward.csv", out="ward.csv")
