"""A task for statistics alone: what init proposes of somebody's columns can be computed of them."""

import re

import numpy as np
import pytest

from node.init import __main__ as command
from node.init.statistics import _grid
from node.jobs.statistics.columns import Number
from node.jobs.statistics.survival import MOST_TIMES, Times
from node.options import parse_arguments
from node.stats.run import prepare_statistics
from node.task.data_schema import NumberColumn
from node.task.load import load_task
from node.task.statistics import ModelAsked, SurvivalAsked
from tests.statistics_rows import FOLDER

ROWS = ("--data", str(FOLDER / "rows.csv"))


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_all_that_is_proposed_is_a_task_that_can_start(tmp_path, capsys):
    assert command.main([*ROWS, "--statistics", "--leave-out", "site", "--out", "t.toml"]) == 0
    assert "t.toml is written: statistics alone" in capsys.readouterr().out
    text = (tmp_path / "t.toml").read_text()
    asked = re.sub(r"(?m)^# (tables|models|survival) = ", r"\1 = ", text)
    assert "[model]" not in asked
    assert "[train]" not in asked
    (tmp_path / "t.toml").write_text(asked)
    given = parse_arguments(["--task", "t.toml", *ROWS, "--peers", "127.0.0.1:1"])
    section = given.task.statistics
    assert (section.by, section.tables) == ("sex", (("sex", "arm"),))
    assert section.models[0].formula == "died ~ age + bmi + visits + sex"
    assert section.survival[0].cox == ("age", "bmi", "visits", "sex")
    assert (section.survival[0].time, section.survival[0].by) == ("days", "sex")
    assert prepare_statistics(given)[0].about.what == "statistics of 8 columns"


def test_what_is_asked_stands_in_the_task(tmp_path, capsys):
    asked = ("--by", "none", "--formula", "visits ~ age", "--family", "poisson", "--out", "t.toml")
    assert command.main([*ROWS, "--statistics", "--time", "days", "--event", "died", *asked]) == 0
    section = load_task(str(tmp_path / "t.toml"), ()).statistics
    assert (section.by, section.models) == (None, (ModelAsked("visits ~ age", "poisson"),))
    assert section.survival == (SurvivalAsked("days", "died", grid=1.0),)


@pytest.mark.parametrize(("high", "grid"), [(0.0, 1), (4095.0, 1), (4096.0, 2), (9000.0, 5), (2e6, 500)])
def test_a_proposed_grid_has_not_too_many_times(high, grid):
    assert _grid(NumberColumn("days", "number", 0.0, 1.0, low=0.0, high=high)) == grid
    column = Number("days", 0.0, high)
    assert Times(column, column, grid).places <= MOST_TIMES


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--statistics", "--privacy", "dp-sgd"), "--statistics is refused with --privacy dp-sgd"),
        (("--statistics", "--data", "x.npz"), "no columns; allowed: a table"),
        (("--by", "sex"), "--by 'sex' has no effect without --statistics; give that too, or leave it out"),
        (("--statistics", "--event", "died"), "--event is given without --time; allowed: both"),
        (("--statistics", "--family", "poisson"), "--family poisson has no effect without --formula"),
    ],
)
def test_what_is_refused(argv, words, tmp_path, one_line):
    np.savez(tmp_path / "x.npz", x=np.ones((30, 2, 2)), y=np.tile([0, 1], 15))
    assert words in one_line(command.main, [*ROWS, *argv])
