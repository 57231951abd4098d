"""From a clone to a first swarm on a user's own CSV: the five commands in README.md, as written there.

`.ci/run` runs this with the wheel that it has built, and leaves out any other test of the installation:
MURMURATION_WHEEL=dist/murmuration_node-0.1.0-py3-none-any.whl pytest -s tests/e2e/test_five_commands.py

The test installs that wheel instead of the source tree, so that nothing missing from it can be found. The
Adult file is split in three. All owners are on one machine: one installs, all three learn. The test prints
the time that it took, and asserts none.
"""

from __future__ import annotations

import csv
import gzip
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.documents import Command, commands_of
from tests.e2e.processes import ROOT, Nursery, Process, free_endpoint
from tests.run_folders import summary

DATA = os.environ.get("MURMURATION_DATA")
WHEEL = os.environ.get("MURMURATION_WHEEL")
ENVIRONMENT = os.environ.get("MURMURATION_ENVIRONMENT")
"""Where `.ci/run` wants the environment for later use; a folder that does not exist yet."""
PYTHON = ".venv/bin/python"
INSTALL_S = 600.0
HEADER = (
    "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, race, sex, "
    "capital-gain, capital-loss, hours-per-week, native-country, outcome"
)

needs_a_wheel = [
    pytest.mark.skipif(not WHEEL, reason="needs MURMURATION_WHEEL: .ci/run builds one, and runs this"),
    pytest.mark.skipif(not DATA, reason="needs MURMURATION_DATA, for the Adult file"),
    pytest.mark.slow,  # installs torch, then three peers train on all of the Adult file
]


@dataclass(frozen=True)
class Told:
    """The commands of README.md, each as the words of its line."""

    environment: tuple[str, ...]
    install: tuple[str, ...]
    init: tuple[str, ...]
    check: tuple[str, ...]
    node: tuple[str, ...]
    predict: tuple[str, ...]

    @property
    def own_data(self) -> tuple[tuple[str, ...], ...]:
        """The commands after the installation."""
        return self.init, self.check, self.node, self.predict


def told_commands() -> Told:
    """Returns the commands for own data, and the last environment and installation before them."""
    commands = commands_of(ROOT / "README.md")
    first = next(place for place, command in enumerate(commands) if command.module == "node.init")
    before, after = commands[first - 1 :: -1], commands[first:]
    found = (
        next(command for command in before if command.words[:3] == ("python3", "-m", "venv")),
        next(command for command in before if command.module == "pip"),
        *(_first(after, module) for module in ("node.init", "node.check", "node", "node.predict")),
    )
    return Told(*(command.words for command in found))


def _first(commands: list[Command], module: str) -> Command:
    return next(command for command in commands if command.module == module)


@pytest.fixture
def owners(tmp_path: Path) -> list[Path]:
    """Makes a folder with a mine.csv for each owner; the first one also has new.csv, with new rows."""
    folders = [tmp_path / name for name in ("anna", "ben", "carla")]
    known, new = rows_of("adult.data.gz"), rows_of("adult.test.gz")
    for number, folder in enumerate(folders):
        folder.mkdir()
        (folder / "mine.csv").write_text("\n".join([HEADER, *known[number::3]]) + "\n")
    (folders[0] / "new.csv").write_text("\n".join([HEADER, *new]) + "\n")
    return folders


def rows_of(name: str) -> list[str]:
    """Returns the lines of one of the two files; removes the second one's title and full stops."""
    assert DATA is not None
    with gzip.open(Path(DATA) / "adult" / name, "rt") as file:
        return [line.rstrip(" .\n") for line in file if line.count(",") == HEADER.count(",")]


def done(*processes: Process) -> list[list[str]]:
    """Waits until all have ended well; returns what each printed."""
    for process in processes:
        status = process.status(INSTALL_S)
        process.out.join()
        process.err.join()
        assert status == 0, process.told()
    return [process.out.all() for process in processes]


def test_five_commands_are_told() -> None:
    told = told_commands()

    assert told.install[:6] == (PYTHON, "-m", "pip", "install", "-c", "constraints.txt")
    assert told.environment[3:] == (".venv",)


def test_the_page_on_data_tells_the_same_commands() -> None:
    """They differ only in file names; the test below runs README.md's commands."""
    known = {words[2]: options(words) for words in told_commands().own_data}
    found = [command for command in commands_of(ROOT / "docs" / "data.md") if command.module in known][:3]

    assert [command.module for command in found] == ["node.init", "node.check", "node"]
    for command in found:
        assert options(command.words) <= known[str(command.module)], command


def options(words: tuple[str, ...]) -> set[str]:
    return {word for word in words if word.startswith("--")}


@pytest.mark.parametrize("told", [pytest.param(told_commands(), marks=needs_a_wheel, id="README")])
def test_five_commands_to_a_first_swarm(nursery: Nursery, owners: list[Path], told: Told) -> None:
    anna, begun = owners[0], time.monotonic()
    environment = Path(ENVIRONMENT or anna / ".venv")

    def type_in(words: tuple[str, ...], owner: Path) -> Process:
        given = [
            str(environment / "bin" / "python") if word in {"python", PYTHON} else word for word in words
        ]
        return nursery.typed(given, owner)

    done(nursery.typed((*told.environment[:3], str(environment)), ROOT))
    done(type_in((*told.install[:6], str(Path(str(WHEEL)).absolute())), ROOT))
    installed = time.monotonic()

    done(type_in(told.init, anna))
    for other in owners[1:]:
        (other / "ward.toml").write_bytes((anna / "ward.toml").read_bytes())
    for said in done(*(type_in(told.check, owner) for owner in owners)):
        assert said[-1] == "nothing found that would fail"
    where = told.node.index("--peers") + 1
    peers = ",".join(free_endpoint() for _ in owners)
    done(*(type_in((*told.node[:where], peers, *told.node[where + 1 :]), owner) for owner in owners))
    learned = time.monotonic()

    outs = [owner / told.node[told.node.index("--out") + 1] for owner in owners]
    assert len({summary(out)["base_digest"] for out in outs}) == 1

    done(type_in(told.predict, anna))
    right, most = judged(anna)
    print(
        f"\nfive commands: {learned - begun:.0f} s, of which the installation {installed - begun:.0f} s; "
        f"accuracy on new rows {right:.3f}, of the largest class {most:.3f}"
    )
    assert right > most


def judged(folder: Path) -> tuple[float, float]:
    """Returns the accuracy of predictions.csv on new.csv, and that of the largest class."""
    truth = [row[-1] for row in table(folder / "new.csv")]
    guessed = [row[1] for row in table(folder / "predictions.csv")]
    right = sum(one == other for one, other in zip(truth, guessed, strict=True)) / len(truth)
    return right, Counter(truth).most_common(1)[0][1] / len(truth)


def table(path: Path) -> list[list[str]]:
    """Returns the rows below the header."""
    with path.open(newline="") as file:
        return list(csv.reader(file, skipinitialspace=True))[1:]
