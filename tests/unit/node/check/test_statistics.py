"""What `murmuration check` says of a task's [statistics]: what a start would refuse, in the same words."""

import csv

import pytest

from node.app.run import prepare
from node.check.checks import check_all
from node.check.statistics import statistics_findings
from node.options import parse_arguments
from node.system.errors import ConfigError
from node.task.load import load_task
from tests.statistics_rows import FOLDER, trial

MODEL = trial().partition("model = ")[2].partition("\n")[0]
ALONE = trial().replace(f"model = {MODEL}\n", "")
"""The trial as a task for statistics alone."""


@pytest.fixture
def options(tmp_path, monkeypatch):
    """The options of a node with a changed task and changed rows."""
    monkeypatch.chdir(tmp_path)

    def make(*changes, rows=lambda row: row, text=ALONE):
        with (FOLDER / "rows.csv").open() as file:
            lines = [rows(line) for line in csv.DictReader(file)]
        with (tmp_path / "mine.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(line for line in lines if line)
        (tmp_path / "trial.toml").write_text(text)
        more = [word for change in changes for word in ("--set", change)]
        return parse_arguments(
            ["--task", "trial.toml", "--data", "mine.csv", "--peers", "127.0.0.1:1", *more]
        )

    return make


def where(column, value, rows):
    """Replaces a value in the first rows."""
    left = [rows]

    def change(row):
        left[0] -= 1
        return {**row, column: value} if left[0] >= 0 else row

    return change


REFUSED = {
    "no range": (
        {"text": ALONE.replace(", low = 0.0, high = 120.0", "")},
        "'age' has no low and high, so nothing bounds",
    ),
    "no category": (("statistics.by=age",), "allowed: a category: sex, arm, smoker, died"),
    "outside": (
        {"rows": where("age", "300", 6)},
        "row 1, column 'age': 300 is not allowed: 0 to 120; 6 rows have such a value",
    ),
    "privacy": (("privacy.mechanism=ldp",), "'ldp' does not go with statistics"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_start_would_refuse_is_a_problem(options, case):
    given, words = REFUSED[case]
    made = options(**given) if isinstance(given, dict) else options(*given)
    (found,) = statistics_findings(made)
    assert (found.level, found.what) == ("problem", "statistics")
    assert words in found.text


def test_a_task_for_statistics_alone_needs_no_model_and_is_not_learned(options):
    made = options(rows=where("age", "300", 4))
    found = [line for one in check_all(made, met=False) for line in one.lines()]
    assert found[0] == "ok       task: trial, statistics alone"
    assert "ok       statistics: statistics of 8 columns; mine.csv: 480 rows" in found
    assert any("the program of each member sees them" in line for line in found)
    assert any("counts of 1 to 4 as < 5" in line for line in found)
    assert not any(line.startswith("problem") for line in found)
    with pytest.raises(ConfigError, match="so there is nothing to learn; murmuration stats computes"):
        prepare(made)
    with pytest.raises(ConfigError, match=r"train has no effect without \[model\]"):
        load_task("trial.toml", ["train.rounds=3"])
    with pytest.raises(ConfigError, match=r"model\.class is missing"):
        load_task("trial.toml", ["model.args.inputs=3"])


def test_a_task_that_asks_for_no_statistics_is_not_checked_for_any(options):
    assert list(statistics_findings(options(text=trial().partition("[statistics]")[0]))) == []
