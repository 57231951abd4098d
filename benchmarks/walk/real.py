"""Three hospitals go the way of users by real commands: init, agree, learn, predict. Nobody edits a file."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.walk.hospitals import SITES, TARGET, write
from benchmarks.walk.rows import Hospitals
from node.system.errors import UserError
from scenarios.frame.children import Children
from scenarios.swarms.nodes import endpoints_of, listeners

NAMES = tuple(site.name for site in SITES)
COMMAND = "scenarios.frame.children:command"
POLL_S = 1.0


@dataclass(frozen=True)
class Walked:
    """What the three nodes ended with.

    `chances` (n,): P(ill) of each new row, site by site. `model`, `learning_rate`: of the task.
    `epsilon_spent`: by the run alone; the agreement before it spent its own share of the stated epsilon.
    """

    chances: NDArray[np.float64]
    model: str
    learning_rate: float
    epsilon_spent: float


def walk(folder: Path, rows: Hospitals, epsilon: float) -> Walked:
    """Write the sites' files to `folder`, and run all commands there. Raises UserError if one fails."""
    for site, old, new in zip(SITES, rows.old, rows.new, strict=True):
        write(folder / f"{site.name}.csv", site, old)
        write(folder / f"{site.name}-new.csv", site, new)
    first, peers = f"{NAMES[0]}.csv", ("--peers", str(len(NAMES)))
    asked = ("--target", TARGET, "--agree", *peers, "--epsilon", f"{epsilon:g}", "--out", "task.toml")
    _run_commands(folder, [("node.init", "--data", first, *asked)])
    with listeners(len(NAMES)) as sockets:
        places = endpoints_of(sockets)
    met = [("--peers", ",".join(places), "--listen", place) for place in places]
    _run_commands(
        folder,
        [
            ("node.agree", "task.toml", *_own_options(name, "agreed"), *where, "--write", f"{name}.toml")
            for name, where in zip(NAMES, met, strict=True)
        ],
    )
    _run_commands(
        folder,
        [
            ("node", "--task", f"{name}.toml", *_own_options(name, "run"), *where)
            for name, where in zip(NAMES, met, strict=True)
        ],
    )
    for name in NAMES:
        later = ("--data", f"{name}-new.csv", "--out", f"{name}-answers.csv")
        _run_commands(folder, [("node.predict", "--model", f"{name}-run", *later)])
    ends = [json.loads((folder / f"{name}-run" / "summary.json").read_text("utf-8")) for name in NAMES]
    if len({end["base_digest"] for end in ends}) != 1:
        raise UserError("walk: the nodes ended with different models")
    task = tomllib.loads((folder / f"{NAMES[0]}.toml").read_text("utf-8"))
    return Walked(
        chances=np.concatenate([_chances(folder / f"{name}-answers.csv") for name in NAMES]),
        model=task["model"]["class"].rpartition(":")[2],
        learning_rate=task["train"]["learning_rate"],
        epsilon_spent=ends[0]["privacy"]["epsilon_spent"],
    )


def _own_options(name: str, out: str) -> tuple[str, ...]:
    return ("--data", f"{name}.csv", "--out", f"{name}-{out}")


def _run_commands(folder: Path, commands: Sequence[Sequence[str]]) -> None:
    """Run (module, *argv) commands at the same time; wait for all. Raises UserError if one fails."""
    with Children() as children:
        for number, (module, *argv) in enumerate(commands):
            log = folder / f"log-{module}-{number}.txt"
            children.start(f"walk: {module}", log, COMMAND, module, folder, *argv)
        while children.running():
            children.wait(POLL_S)


def _chances(path: Path) -> NDArray[np.float64]:
    with path.open(encoding="utf-8", newline="") as file:
        return np.array([float(row["p(ja)"]) for row in csv.DictReader(file)])
