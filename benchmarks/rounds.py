"""Rounds: the seconds and bytes of a round, and of its phases, with real peers on this machine."""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from benchmarks.spec import Benchmark, Figure, figure
from node.runtime.record.figures import AGGREGATED, Record
from node.system.errors import ConfigError, UserError
from node.task.load import load_task
from scenarios.swarms.history import PHASES
from scenarios.swarms.nodes import PeerRun, SwarmPlan, run_swarm
from scenarios.swarms.progress import PeerProgress

TASK = "digits"
SETTINGS = ("train.epochs=1",)
PEERS, LEAST_PEERS, MOST_PEERS = 10, 3, 64
MANY_ROUNDS, QUICK_ROUNDS = 12, 4
ROUND_AT_MOST_S = 1.2
_EVERY_S = 0.01


class Endings:
    """Notes when rounds end: while the context is entered, a thread sees each history.jsonl grow."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._seen: dict[Path, list[tuple[int, int]]] = {path: [] for path in paths}
        """The file's size in bytes and its mtime in nanoseconds, at each growth."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Endings:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            for path, seen in self._seen.items():
                try:
                    stat = path.stat()
                except FileNotFoundError:
                    continue
                if stat.st_size and (not seen or seen[-1][0] != stat.st_size):
                    seen.append((stat.st_size, stat.st_mtime_ns))

    def seconds(self, path: Path) -> list[float]:
        """Return the seconds of each round of this file but the first, which includes the peer's start."""
        return [(later - earlier) / 1e9 for (_, earlier), (_, later) in pairwise(self._seen[path])]


def quiet(peers: Sequence[PeerProgress]) -> None:
    """Show nothing of the peers' progress."""


@dataclass(frozen=True)
class TimedRound:
    """A round of one peer, and its seconds from end to end."""

    seconds: float
    round: Record

    @property
    def rest_s(self) -> float:
        """The seconds outside all phases: the peer evaluates, writes files, waits for others."""
        return max(0.0, self.seconds - sum(cost.s for cost in self.round.phases.values()))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--peers", type=int, default=PEERS, help=f"how many peers (default {PEERS})")
    parser.add_argument(
        "--rounds", type=int, help=f"how many rounds (default {MANY_ROUNDS}; quick {QUICK_ROUNDS})"
    )


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Run one swarm; yield figures over its peers and all rounds but the first."""
    usual = QUICK_ROUNDS if arguments.quick else MANY_ROUNDS
    rounds = usual if arguments.rounds is None else arguments.rounds
    if not LEAST_PEERS <= arguments.peers <= MOST_PEERS:
        raise ConfigError(f"--peers {arguments.peers}: allowed are {LEAST_PEERS} to {MOST_PEERS}")
    if rounds < 2:
        raise ConfigError(f"--rounds {rounds}: allowed are 2 and more (the first one is not counted)")
    return _figures(arguments.peers, rounds)


def _figures(peers: int, rounds: int) -> Iterator[Figure]:
    case = f"{TASK} n={peers}"
    with tempfile.TemporaryDirectory() as folder:
        plan = SwarmPlan(load_task(TASK, SETTINGS), peers, rounds, Path(folder))
        paths = [plan.peer_folder(peer) / "history.jsonl" for peer in range(plan.peers)]
        with Endings(paths) as endings:
            runs = run_swarm(plan, quiet)
        timed = [
            one
            for run, path in zip(runs, paths, strict=True)
            for one in _timed_rounds(run, endings.seconds(path))
        ]
    yield figure("rounds", case, "round", "s", [one.seconds for one in timed], ROUND_AT_MOST_S)
    yield from _phase_figures(case, timed)
    fell_back = sum(entry.outcome != AGGREGATED for run in runs for entry in run.rounds)
    models = len({run.summary.base_digest for run in runs})
    yield figure("rounds", case, "rounds not aggregated", "rounds", [fell_back], 0)
    yield figure("rounds", case, "different models at the end", "models", [models], 1)


def _timed_rounds(run: PeerRun, seconds: list[float]) -> list[TimedRound]:
    if len(seconds) != len(run.rounds) - 1:
        raise UserError(f"rounds: {len(seconds)} of {len(run.rounds) - 1} rounds were seen to end")
    return [TimedRound(took, entry) for took, entry in zip(seconds, run.rounds[1:], strict=True)]


def _phase_figures(case: str, timed: list[TimedRound]) -> Iterator[Figure]:
    for phase in PHASES:
        yield figure("rounds", case, f"{phase} time", "s", [one.round.phases[phase].s for one in timed])
    yield figure("rounds", case, "rest time", "s", [one.rest_s for one in timed])
    for phase in PHASES[1:]:
        sent = [one.round.phases[phase].bytes_sent for one in timed]
        yield figure("rounds", case, f"{phase} bytes sent", "bytes", sent)
    yield figure("rounds", case, "bytes sent", "bytes", [one.round.bytes_sent for one in timed])


ROUNDS = Benchmark(add_options, run)
