"""The command: which files it writes, and what it never overwrites."""

import json
from dataclasses import replace

import pytest

from benchmarks.page.server import job_view
from node.desk.views import swarm_view
from node.observe.comparison import compared
from node.observe.run_folder import RunFolder
from node.report.__main__ import main
from node.storage.folder_lock import VIEW
from node.task.load import read_task
from node.task.table_models import ADDITIVE, TREES
from node.training.build import make
from node.training.local_tensors import whole_model
from node.training.model_file import task_table, write_model
from tests.own_data import TABLE
from tests.unit.node.observe.folders import run_in


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return run_in(tmp_path / "runs" / "a")


def test_a_run_gets_its_report_and_gets_it_again_and_several_get_one_here(run, tmp_path, capsys):
    assert main([str(run)]) == main([str(run)]) == 0
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert f"report: {run / 'report.html'}, " in capsys.readouterr().out
    (run / "report.html").unlink()
    run_in(tmp_path / "runs" / "b")
    assert main([str(tmp_path / "runs")]) == 0
    assert (tmp_path / "report.html").exists()
    assert not (run / "report.html").exists()


def test_a_job_that_stopped_unfinished_is_marked(tmp_path, capsys):
    run = run_in(tmp_path / "a", job_view(), ended=True)
    assert main([str(run)]) == 0
    assert capsys.readouterr().out.endswith(f"; {run} is UNFINISHED: its job stopped after sum 7\n")
    view = RunFolder(run).read()
    assert swarm_view("a", view)["state"] == "unfinished"
    (line, other) = compared([view, replace(view, over=True)]).runs
    assert (line.sums, line.over, other.over) == (7, False, True)


def test_tables_alone_are_written_where_they_alone_are_asked_for(run, tmp_path, capsys):
    assert main([str(run), "--csv", "a.csv", "--parquet", "a.parquet"]) == 0
    assert (tmp_path / "a.csv").read_text().startswith("run,round,")
    assert (tmp_path / "a.parquet").read_bytes()[:4] == b"PAR1"
    assert not (run / "report.html").exists()
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize("option", ["--html", "--csv", "--parquet"])
def test_a_file_that_is_no_report_is_kept_unless_forced(run, tmp_path, one_line, option):
    path = tmp_path / "data"
    path.write_text("somebody's rows")
    assert "exists and is no earlier report; give another, or --force" in one_line(
        main, [str(run), option, str(path)]
    )
    assert path.read_text() == "somebody's rows"
    assert main([str(run), option, str(path), "--force"]) == 0
    assert path.read_text("latin-1") != "somebody's rows"


def test_a_damaged_run_changes_no_file(run, tmp_path, one_line):
    other = run_in(tmp_path / "runs" / "b")
    (other / VIEW).write_text("{")
    assert f"{other / VIEW} is damaged" in one_line(
        main, [str(run), str(other), "--csv", "a.csv", "--html", "a.html"], status=1
    )
    assert not (tmp_path / "a.csv").exists()


def test_a_folder_without_a_run_and_one_that_cannot_be_written_are_one_line(run, tmp_path, one_line):
    assert "nowhere" in one_line(main, [str(tmp_path / "nowhere")])
    assert "cannot be written" in one_line(main, [str(run), "--csv", str(tmp_path / "no" / "a.csv")])


@pytest.mark.parametrize("cls", [TREES, ADDITIVE])
def test_trees_alone_are_a_file_for_xgboost(run, tmp_path, one_line, cls):
    model = {"class": cls, "args": {"trees": 2}}
    task = read_task({"task": {"name": "t"}, "model": model, "data": {"schema": TABLE}})
    about = {"task": task_table(task), "classes": 2, "row": [7]}
    write_model(run / "model.safetensors", whole_model(make(task.model, 0), {}), about)
    is_trees = cls == TREES
    argv = [str(run), "--xgboost", "trees.json"]
    if is_trees:
        assert main(argv) == 0
        found = json.loads((tmp_path / "trees.json").read_text())
        assert found["learner"]["feature_names"] == ["age", "ward", "smoker", "seen"]
    else:
        line = (
            "--xgboost is refused: model.class = 'node.models:Additive' is not of trees alone; allowed: 'node"
        )
        assert line in one_line(main, argv)
    run_in(tmp_path / "runs" / "b")
    assert "--xgboost is of one model, not of 2 runs; give one folder" in one_line(
        main, [str(tmp_path / "runs"), "--xgboost", "both.json"]
    )
