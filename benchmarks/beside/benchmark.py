"""The same jobs here, under Flower (plain, and with SecAgg+) and under NVIDIA FLARE (swarm learning).

All have the same rows, first models, sizes, batches and rounds. Flower and NVIDIA FLARE run `programs/` in
environments of their own, which the options name; both need torch beside them. Here every peer is a process;
Flower's clients are actors of its simulation, NVIDIA FLARE's are processes of its simulator.

Bytes are those that one site sends. Here and under NVIDIA FLARE they are counted where frames leave; Flower's
simulation has no network, so they are the sizes of its serialised replies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.spec import Benchmark, Figure, check_counts, figure
from node.system.errors import ConfigError, UserError

if TYPE_CHECKING:
    from benchmarks.beside.peers import Outcome

CASES = ("digits", "lora", "survival")
HERE = "murmuration"
_PROGRAMS = Path(__file__).resolve().parent / "programs"
_PATIENCE_S = 900.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    for name in ("flower", "nvflare"):
        parser.add_argument(
            f"--{name}", type=Path, metavar="VENV", help=f"an environment with {name} and torch"
        )
    parser.add_argument("--only", choices=CASES, help="one job (default: all)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each job and system (default 3)")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Run each job under each system that there is an environment for. Raises ConfigError."""
    check_counts(arguments, "seeds")
    interpreters = {}
    for name in ("flower", "nvflare"):
        if (folder := getattr(arguments, name)) is not None:
            interpreters[name] = _interpreter(name, folder)
    return _figures(arguments, interpreters)


def _interpreter(name: str, folder: Path) -> Path:
    python = folder.absolute() / "bin" / "python"
    if not python.exists():
        raise ConfigError(f"--{name} {folder}: there is no bin/python; make one with python -m venv {folder}")
    return python


def _figures(arguments: argparse.Namespace, interpreters: Mapping[str, Path]) -> Iterator[Figure]:
    from benchmarks.beside.cases import make_case  # noqa: PLC0415 - loads torch
    from benchmarks.beside.peers import Outcome, run_here  # noqa: PLC0415 - loads torch

    def outside(name: str, *more: str) -> Callable[[Path], Outcome]:
        def run_there(folder: Path) -> Outcome:
            told = last_json(interpreters[name], name, folder, *more)
            return Outcome(
                told["score"],
                told["whole_s"],
                tuple(told["round_s"]),
                tuple(told["sent"]),
                told["version"],
            )

        return run_there

    systems: dict[str, Callable[[Path], Outcome]] = {HERE: run_here}
    if "flower" in interpreters:
        systems |= {"flower": outside("flower"), "flower, SecAgg+": outside("flower", "secagg")}
    if "nvflare" in interpreters:
        systems |= {"nvflare, swarm": outside("nvflare")}
    for case in CASES if arguments.only is None else (arguments.only,):
        for system, go in systems.items():
            outcomes = []
            for seed in range(1 if arguments.quick else arguments.seeds):
                with tempfile.TemporaryDirectory() as named:
                    folder = Path(named)
                    make_case(folder, case, seed)
                    outcomes.append(go(folder))
            yield from _told(case, system, outcomes)


def _told(case: str, system: str, outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    told = partial(figure, "beside", f"{case}, {system}")
    is_curve = case == "survival"
    name = "distance from pooled" if is_curve else "accuracy"
    yield told(name, "", [one.score for one in outcomes], note=outcomes[0].version)
    yield told("whole", "s", [one.whole_s for one in outcomes])
    rounds = [s for one in outcomes for s in one.round_s]
    if rounds:
        yield told("a round", "s", rounds)
    yield told("bytes sent by a site", "bytes", [sent for one in outcomes for sent in one.sent])


def last_json(python: Path, name: str, folder: Path, *more: str) -> dict[str, Any]:
    """Run a program in another environment; return the object on its last line. Raises UserError."""
    command = (str(python), str(_PROGRAMS / f"{name}_program.py"), str(folder), *more)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or error.stdout.strip() or "it said nothing").splitlines()
        raise UserError(f"--{name} {python}: {said[-1]}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise UserError(f"--{name} {python}: {error}") from error
    return told


BESIDE = Benchmark(add_options, run)
