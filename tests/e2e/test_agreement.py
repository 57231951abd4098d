"""Three owners agree on scales and lists by secure sums, and learn with the result."""

from __future__ import annotations

import csv
import io
import tomllib
from pathlib import Path

import numpy as np
import pytest

from node.init import __main__ as init
from node.task.scaling import rounded_scale
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.e2e.swarm import one_digest, settings
from tests.own_data import ward

EPSILON, DELTA, SHARE = 8.0, 1e-5, 0.25
PRIVATE = (f"privacy.epsilon={EPSILON}", f"privacy.delta={DELTA}", f"agreement.share={SHARE}")


class Owners:
    """Three folders with their own rows, and the same task with public ranges."""

    def __init__(self, nursery: Nursery, folder: Path, *asked: str) -> None:
        self._nursery = nursery
        self.folders = [folder / name for name in ("anna", "ben", "carla")]
        self.endpoints = [free_endpoint() for _ in self.folders]
        for number, own in enumerate(self.folders):
            own.mkdir()
            (own / "ward.csv").write_text(ward(200 + 100 * number, number))
        usual = ("--target", "outcome", "--agree", "--rounds", "2", "--out", str(folder / "ward.toml"))
        assert init.main(["--data", str(self.folders[0] / "ward.csv"), *usual, *asked]) == 0
        self.task = folder / "ward.toml"

    def agree(self, number: int, *sets: str, more: tuple[str, ...] = ()) -> Process:
        own = self.folders[number]
        where = ("--peers", ",".join(self.endpoints), "--listen", self.endpoints[number])
        here = ("--data", str(own / "ward.csv"), "--out", str(own / "out"))
        said = ("--write", str(own / "agreed.toml"), "--json", *settings(*sets), *more)
        return self._nursery.module("node.agree", str(self.task), *where, *here, *said)

    def learn(self, number: int, *more: str) -> Process:
        own = self.folders[number]
        where = ("--peers", ",".join(self.endpoints), "--listen", self.endpoints[number])
        here = ("--data", str(own / "ward.csv"), "--out", str(own / "learned"), "--json")
        return self._nursery.fork("--task", str(own / "agreed.toml"), *where, *here, *more)

    def written(self) -> dict[str, object]:
        """Returns the task that all of them have written, the same everywhere."""
        texts = {(own / "agreed.toml").read_text() for own in self.folders}
        assert len(texts) == 1
        return tomllib.loads(texts.pop())


@pytest.fixture
def owners(nursery: Nursery, tmp_path: Path) -> Owners:
    return Owners(nursery, tmp_path)


def column(task: dict[str, object], name: str) -> dict[str, object]:
    (found,) = (each for each in task["data"]["schema"]["columns"] if each["name"] == name)
    return found


def test_all_write_the_same_task_from_the_rows_of_all_and_learn_with_it(owners: Owners) -> None:
    numbers = range(3)
    peers = [owners.agree(number, "privacy.mechanism=none") for number in numbers]
    one_digest([peer.ends_well() for peer in peers])
    assert {peer.event("agreed")["peers"] for peer in peers} == {3}
    task = owners.written()
    cells = [list(csv.DictReader(io.StringIO((own / "ward.csv").read_text()))) for own in owners.folders]
    ages = np.array([float(row["age"]) for own in cells for row in own])
    age = column(task, "age")
    assert (age["mean"], age["std"]) == rounded_scale(float(ages.mean()), float(ages.std()))
    assert column(task, "ward")["values"] == ["east", "west"]

    ends = [node.ends_well() for node in [owners.learn(number) for number in numbers]]
    one_digest(ends)
    assert [end["rounds"] for end in ends] == [2, 2, 2]


def without_column(text: str, name: str) -> str:
    """Returns a CSV without one of its columns."""
    table = list(csv.reader(io.StringIO(text)))
    place = table[0].index(name)
    return "".join(",".join(cell for at, cell in enumerate(row) if at != place) + "\n" for row in table)


def test_a_column_that_one_lacks_and_a_class_that_one_has_are_agreed_on_if_all_say_so(owners: Owners) -> None:
    """With privacy, too: which columns a file has is no matter of its rows, and noise does not hide it."""
    with_more, lacking = owners.folders[1] / "ward.csv", owners.folders[2] / "ward.csv"
    lines = with_more.read_text().splitlines()
    moved = [line.replace(",ill", ",moved") if at % 3 else line for at, line in enumerate(lines)]
    with_more.write_text("\n".join(moved) + "\n")
    lacking.write_text(without_column(lacking.read_text(), "smoker"))
    one, other = owners.agree(1, *PRIVATE).fails(2), owners.agree(2, *PRIVATE).fails(2)
    assert "'moved' is no class of the task" in one
    assert "all run node.agree with --also-class" in one
    assert "has no column 'smoker'" in other
    assert "all run node.agree with --leave-out-missing" in other

    more = ("--leave-out-missing", "--also-class", "moved")
    one_digest([peer.ends_well() for peer in [owners.agree(each, *PRIVATE, more=more) for each in range(3)]])
    task = owners.written()
    assert [each["name"] for each in task["data"]["schema"]["columns"]] == ["age", "ward", "seen"]
    assert task["data"]["schema"]["target"]["values"] == ["ill", "well", "moved"]
    drafted = tomllib.loads(owners.task.read_text())["model"]["args"]["inputs"]
    assert (task["model"]["args"]["inputs"], task["model"]["args"]["outputs"]) == (drafted - 1, 3)
    ends = [node.ends_well() for node in [owners.learn(number) for number in range(3)]]
    one_digest(ends)
    assert [end["rounds"] for end in ends] == [2, 2, 2]
