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
from pathlib import Path

import pytest

from tests.e2e.documents import commands_of
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

MODULES = ("node.init", "node.check", "node", "node.predict")


def told_commands() -> dict[str, tuple[str, ...]]:
    """Returns the words of the commands in README.md, by module, from the environment to the prediction."""
    commands = commands_of(ROOT / "README.md")
    first = next(place for place, command in enumerate(commands) if command.module == "node.init")
    before, after = commands[first - 1 :: -1], commands[first:]
    return {
        "venv": next(one.words for one in before if one.words[:3] == ("python3", "-m", "venv")),
        "pip": next(one.words for one in before if one.module == "pip"),
        **{name: next(one.words for one in after if one.module == name) for name in MODULES},
    }


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


def test_the_page_on_data_tells_the_same_commands() -> None:
    """They differ only in file names; the test below runs README.md's commands."""
    told = told_commands()
    assert told["pip"][:6] == (PYTHON, "-m", "pip", "install", "-c", "constraints.txt")
    assert told["venv"][3:] == (".venv",)
    found = [one for one in commands_of(ROOT / "docs" / "data.md") if one.module in MODULES][:3]
    assert [one.module for one in found] == ["node.init", "node.check", "node"]
    for one in found:
        assert options(one.words) <= options(told[str(one.module)]), one


def options(words: tuple[str, ...]) -> set[str]:
    return {word for word in words if word.startswith("--")}


@pytest.mark.skipif(not WHEEL, reason="needs MURMURATION_WHEEL: .ci/run builds one, and runs this")
@pytest.mark.skipif(not DATA, reason="needs MURMURATION_DATA, for the Adult file")
@pytest.mark.slow  # installs torch, then three peers train on all of the Adult file
def test_five_commands_to_a_first_swarm(nursery: Nursery, owners: list[Path]) -> None:
    told = told_commands()
    anna, begun = owners[0], time.monotonic()
    environment = Path(ENVIRONMENT or anna / ".venv")

    def type_in(words: tuple[str, ...], owner: Path) -> Process:
        given = [
            str(environment / "bin" / "python") if word in {"python", PYTHON} else word for word in words
        ]
        return nursery.typed(given, owner)

    done(nursery.typed((*told["venv"][:3], str(environment)), ROOT))
    done(type_in((*told["pip"][:6], str(Path(str(WHEEL)).absolute())), ROOT))
    installed = time.monotonic()

    done(type_in(told["node.init"], anna))
    for other in owners[1:]:
        (other / "ward.toml").write_bytes((anna / "ward.toml").read_bytes())
    for said in done(*(type_in(told["node.check"], owner) for owner in owners)):
        assert said[-1] == "nothing found that would fail"
    where = told["node"].index("--peers") + 1
    peers = ",".join(free_endpoint() for _ in owners)
    done(*(type_in((*told["node"][:where], peers, *told["node"][where + 1 :]), owner) for owner in owners))
    learned = time.monotonic()

    outs = [owner / told["node"][told["node"].index("--out") + 1] for owner in owners]
    assert len({summary(out)["base_digest"] for out in outs}) == 1

    done(type_in(told["node.predict"], anna))
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
