"""From one's own CSV to a first swarm: the commands of docs/data.md and docs/models.md, as they stand there.

Install is the first of an owner's five commands; the other four are read out of the documents, so that these
can not tell a newcomer anything that does not work. The Adult file is cut into three: 1,500 rows an owner.
"""

from __future__ import annotations

import csv
import gzip
import os
import shlex
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.processes import ENOUGH_S, ROOT, Nursery, Process, free_endpoint
from tests.e2e.swarm import history, summary

DATA = os.environ.get("MURMURATION_DATA")
ROWS = 1500
HEADER = (
    "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, race, sex, "
    "capital-gain, capital-loss, hours-per-week, native-country, outcome"
)

pytestmark = pytest.mark.skipif(not DATA, reason="needs MURMURATION_DATA, for the Adult file")


def told_commands() -> dict[str, list[str]]:
    """By module, the first command line for it in the three steps, and in the page on predicting."""
    found: dict[str, list[str]] = {}
    for page in ("data.md", "models.md"):
        for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
            if line.startswith("python -m node"):
                words = shlex.split(line, comments=True)
                found.setdefault(words[2], words[3:])
    return found


@pytest.fixture
def owners(tmp_path: Path) -> list[Path]:
    """A folder for each, with a ward.csv; and new.csv for the first, of rows that nobody learned from."""
    assert DATA is not None
    with gzip.open(Path(DATA) / "adult" / "adult.data.gz", "rt") as file:
        rows = [line for line in file.read().splitlines() if line.strip()]
    folders = [tmp_path / name for name in ("anna", "ben", "carla")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        (folder / "ward.csv").write_text("\n".join([HEADER, *rows[number::3][:ROWS]]) + "\n")
    (folders[0] / "new.csv").write_text("\n".join([HEADER, *rows[-ROWS:]]) + "\n")
    return folders


def done(*processes: Process) -> list[list[str]]:
    """What each said, once all have ended well."""
    for process in processes:
        status = process.status(ENOUGH_S * 3)
        process.out.join()
        process.err.join()
        assert (status, process.err.all()) == (0, []), process.told()
    return [process.out.all() for process in processes]


def test_five_commands_to_a_first_swarm(nursery: Nursery, owners: list[Path]) -> None:
    told, begun = told_commands(), time.monotonic()
    assert list(told) == ["node.init", "node.check", "node", "node.predict"]  # with the install, five
    anna = owners[0]

    done(nursery.plain("node.init", *told["node.init"], cwd=anna))
    for other in owners[1:]:
        (other / "ward.toml").write_bytes((anna / "ward.toml").read_bytes())
    for said in done(*(nursery.plain("node.check", *told["node.check"], cwd=owner) for owner in owners[:2])):
        assert said[-1] == "nothing found that would fail"  # the third would only take the time

    peers = ",".join(free_endpoint() for _ in owners)
    line = [peers if word == "..." else word for word in told["node"]]
    ends = done(*(nursery.plain("node", *line, cwd=owner) for owner in owners))
    outs = [
        owner / next(word for word in said if word.startswith("out: ")).removeprefix("out: ")
        for owner, said in zip(owners, ends, strict=True)
    ]
    assert len({summary(out)["base_digest"] for out in outs}) == 1
    for out in outs:
        assert [line["participants"] for line in history(out)] == [3] * 20

    line = ["runs/" + outs[0].name if word.startswith("runs/") else word for word in told["node.predict"]]
    done(nursery.plain("node.predict", *line, cwd=anna))
    truth = [row[-1] for row in table(anna / "new.csv")]
    guessed = [row[1] for row in table(anna / "predictions.csv")]
    right = sum(one == other for one, other in zip(truth, guessed, strict=True)) / len(truth)
    most = Counter(truth).most_common(1)[0][1] / len(truth)
    print(f"{time.monotonic() - begun:.0f} s; accuracy {right:.3f}, of the largest class {most:.3f}")
    assert right > most


def table(path: Path) -> list[list[str]]:
    """The rows below the header."""
    with path.open(newline="") as file:
        return list(csv.reader(file, skipinitialspace=True))[1:]
