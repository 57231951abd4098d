"""Which column node.init takes for the one that says whose a row is, and what it then writes."""

import random
from pathlib import Path

import pytest

from node.data.dataset import load_dataset
from node.init.__main__ import main
from node.task.load import load_task
from tests.unit.node.cases import cases


@pytest.fixture
def init(tmp_path, monkeypatch, capsys):
    """Writes rows of 60 persons with one to nine visits, runs node.init; returns (status, output, errors)."""
    monkeypatch.chdir(tmp_path)

    def run(*argv, name="PatientenNr", visits=9):
        rng = random.Random(0)
        lines = [f"{name},age,ward,y"]
        for person in range(60):
            lines.extend(
                f"P{person},{rng.randrange(90)},{rng.choice('ab')},{rng.randrange(2)}"
                for _ in range(1 + rng.randrange(visits))
            )
        (tmp_path / "ward.csv").write_text("\n".join(lines) + "\n")
        status = main(["--data", "ward.csv", "--force", *argv])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_a_column_that_names_persons_is_proposed_and_makes_them_the_unit(init):
    status, out, _ = init("--peers", "3")
    rows = 60 * 5
    assert status == 0
    assert "  PatientenNr  left out" in out
    assert "says whose a row is, and stays here" in out
    assert "rows are of 60 persons by column 'PatientenNr', at most 9 rows each" in out
    assert "epsilon is for one person (--person none takes that back)" in out
    task = load_task("task.toml", [])
    assert (task.data.person, task.rows_per_person, task.unit) == ("PatientenNr", 8, "person")
    assert task.train.expected_rows < rows, "144 persons to train on, to one digit"
    text = Path("task.toml").read_text()
    assert 'person = "PatientenNr"    # FROM YOUR DATA' in text
    assert "for every person" in text
    dataset = load_dataset(task, Path("ward.csv"), None)
    assert dataset.units == dataset.persons.count < 60


def test_without_privacy_persons_are_split_and_rows_count(init):
    _, out, _ = init("--privacy", "none")
    task = load_task("task.toml", [])
    assert (task.data.person, task.unit, task.privacy.rows_per_person) == ("PatientenNr", "row", None)
    assert "persons: the" in out


def test_noise_for_one_owner_is_sized_for_persons(init):
    init("--privacy", "dp-sgd")
    text = Path("task.toml").read_text()
    assert "bounds what anybody can tell about any one person" in text
    assert "# With about 50 persons a step's noise is" in text
    assert "rows_per_person = 8" in text


@cases("""
    name => proposed
    PatientenNr => True
    patient_id => True
    Patient => True
    subject-no => True
    Probandennummer => True
    MRN => True
    customer id => True
    patient_age => False
    personal_note => False
    Fallnr => False
    ward_id => False
""")
def test_which_names_say_that_a_column_names_persons(init, name, proposed):
    _, out, _ = init("--privacy", "none", name=name)
    assert ("rows are of 60 persons" in out) is (proposed == "True")


def test_a_number_that_repeats_is_asked_about(init):
    _, out, _ = init(name="case_id")
    assert "warning: column 'case_id' repeats: 60 values in " in out
    assert "If it says whose a row is, give --person 'case_id'; else epsilon is for one row" in out
    assert load_task("task.toml", []).data.person is None
    _, out, _ = init("--person", "case_id", name="case_id")
    assert load_task("task.toml", []).data.person == "case_id"
    for quiet in (("--person", "none"), ("--leave-out", "age", "--person", "none")):
        _, out, _ = init(*quiet, name="case_id")
        assert "repeats" not in out
    _, out, _ = init("--person", "none")
    assert load_task("task.toml", []).data.person is None


def test_rows_that_are_equal_in_all_columns_are_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{number},{number % 7},{number % 2}" for number in range(1000, 1120)]
    (tmp_path / "ward.csv").write_text("\n".join(["age,bed,y", *rows, *rows[:4]]) + "\n")
    for argv, words in (
        ("--privacy dp-sgd", "warning: 8 of 124 rows are equal to another in all columns: if they are one "),
        ("--privacy none", "if they are one person's, that person counts more; name a column of persons ("),
        ("--privacy none --person none", ""),
    ):
        assert main(["--data", "ward.csv", "--force", *argv.split()]) == 0
        out = capsys.readouterr().out
        assert words in out
        assert ("are equal to another" in out) is bool(words)


def test_one_row_each_needs_no_persons(init):
    _, out, _ = init(visits=1)
    assert "person" not in out.replace("epsilon", "")
    assert "repeats" not in out


@cases("""
    argv => line
    --person nobody => has no column 'nobody'
    --person y => --person 'y' is refused: it is the target; name another column
""")
def test_columns_that_cannot_say_it(init, argv, line):
    status, _, errors = init(*argv.split())
    assert status == 2
    assert line in errors
    assert errors.count("\n") == 1
