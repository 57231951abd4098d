"""Siege: what strangers who flood one node cost its swarm, with real processes on this machine.

Two swarms of four nodes learn side by side. One node of the first swarm is at rest and under siege by turns.
Nobody attacks the second swarm, the twin: it shows what else the machine does. An attacker at the lowest
priority (benchmarks.siege.attacker) keeps slow bodies, idle connections, silent websockets and slow headers
open. Then a siege begins in which another member is killed and restarted. Then clients request the node's
status 3,000 times. After a minute of rest the node must have released the memory; the descriptors that it
still has open are shown.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.memory.residence import cpu_seconds
from benchmarks.siege.attacker import Force
from benchmarks.siege.swarm import START_S, Swarm
from benchmarks.spec import Benchmark, Figure, figure
from node.system.addresses import split_endpoint
from node.system.errors import ConfigError, UserError

BESIEGED, KILLED = 0, 3
TURN_S, QUICK_TURN_S = 30.0, 8.0
AFTER_S, QUICK_AFTER_S = 60.0, 15.0
TURNS, QUICK_TURNS = 3, 1
GETS, QUICK_GETS = 3000, 300
ASKERS = 8
WARM_ROUNDS = 3
OPENED_WITHIN_S = 60.0
REJOINS_WITHIN_S = 120.0
MOST_DURING_MB, MOST_AFTER_MB = 64.0, 16.0
LEAST_PACE = 0.8
REJOINS_AT_MOST_S = 10.0
SAMPLE_S = 0.1
_MB = 1e6


@dataclass(frozen=True)
class Plan:
    """The seconds of a turn and of the last rest, the sieges, the requests, the attacker's connections."""

    turn_s: float
    after_s: float
    turns: int
    gets: int
    force: Force


@dataclass
class Measured:
    """The rounds per second in each turn of both swarms, and what each attacker counted."""

    rest: list[float] = field(default_factory=list)
    siege: list[float] = field(default_factory=list)
    twin_rest: list[float] = field(default_factory=list)
    twin_siege: list[float] = field(default_factory=list)
    attacks: list[Mapping[str, int]] = field(default_factory=list)

    @property
    def paces(self) -> list[float]:
        """The rounds per second in each siege, divided by the mean of the rests before and after it."""
        return _paces(self.rest, self.siege)

    @property
    def twin_paces(self) -> list[float]:
        """The twin's rounds per second in the same turns, likewise."""
        return _paces(self.twin_rest, self.twin_siege)


def _paces(rest: list[float], siege: list[float]) -> list[float]:
    around = [(before + after) / 2 for before, after in pairwise(rest)]
    return [under / at_rest for under, at_rest in zip(siege, around, strict=True)]


class Memory:
    """The memory of the besieged node and its twin above its value at the start; a thread samples it."""

    def __init__(self, here: Swarm, twin: Swarm) -> None:
        self._swarms = (here, twin)
        self._first = [swarm.resident_bytes(BESIEGED) for swarm in self._swarms]
        self._most = list(self._first)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            with suppress(UserError):  # other code reports a node that has ended
                current = [swarm.resident_bytes(BESIEGED) for swarm in self._swarms]
                self._most = [max(pair) for pair in zip(self._most, current, strict=True)]

    def peaks(self) -> tuple[float, float]:
        """Stop the thread; return the peak of each above the start, in MB."""
        self._over.set()
        self._thread.join()
        return self._above(self._most)

    def current(self) -> tuple[float, float]:
        """Return the present memory of each above the start, in MB."""
        return self._above([swarm.resident_bytes(BESIEGED) for swarm in self._swarms])

    def _above(self, values: list[int]) -> tuple[float, float]:
        besieged, twin = ((value - first) / _MB for value, first in zip(values, self._first, strict=True))
        return besieged, twin


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turn", type=float, metavar="S", help=f"seconds of a turn (default {TURN_S:.0f})")
    parser.add_argument("--turns", type=int, help=f"sieges, each between two rests (default {TURNS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield what sieges cost the swarm, how soon a killed member is back, and what remains afterwards."""
    turn_s, after_s, turns, gets = (
        (QUICK_TURN_S, QUICK_AFTER_S, QUICK_TURNS, QUICK_GETS)
        if arguments.quick
        else (TURN_S, AFTER_S, TURNS, GETS)
    )
    turn_s = turn_s if arguments.turn is None else arguments.turn
    turns = turns if arguments.turns is None else arguments.turns
    if turn_s < 1 or turns < 1:
        raise ConfigError(f"--turn {turn_s:g} --turns {turns}: allowed are 1 and more")
    return _figures(Plan(turn_s, after_s, turns, gets, Force()))


def _figures(plan: Plan) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Swarm(folder / "besieged") as here, Swarm(folder / "twin") as twin:
            for swarm in (here, twin):
                swarm.wait_rounds(BESIEGED, WARM_ROUNDS, START_S)
            yield from _siege_figures(here, twin, plan)


def _siege_figures(here: Swarm, twin: Swarm, plan: Plan) -> Iterator[Figure]:
    case = f"{plan.force.connections} connections"
    memory, descriptors = Memory(here, twin), here.descriptors(BESIEGED)
    seen = _measure_turns(here, twin, plan)
    note = f"{_list_text(seen.siege)} rounds/s under siege, {_list_text(seen.rest)} at rest"
    yield figure("siege", case, "pace, siege / rest", "", seen.paces, note=note, at_least=LEAST_PACE)
    yield figure("siege", case, "pace of the twin, the same", "", seen.twin_paces)
    counts = [float(found.get("opened", 0)) for found in seen.attacks]
    note = "; ".join(str(dict(found)) for found in seen.attacks)
    yield figure("siege", case, "opened before a siege counts", "connections", counts, note=note)
    listening_s, rejoined_s = _restart_member(here, plan)
    yield figure("siege", case, "a killed member listens after", "s", [listening_s])
    yield figure("siege", case, "and is in a round after", "s", [rejoined_s], REJOINS_AT_MOST_S)
    besieged, other = memory.peaks()
    note = f"{besieged:.1f} besieged, {other:.1f} twin"
    yield figure("siege", case, "memory above the twin", "MB", [besieged - other], MOST_DURING_MB, note)
    yield _asking_figure(here, plan)
    time.sleep(plan.after_s)
    besieged, other = memory.current()
    note = f"{besieged:.1f} besieged, {other:.1f} twin"
    name = f"memory {plan.after_s:.0f} s after"
    yield figure("siege", case, name, "MB", [besieged - other], MOST_AFTER_MB, note)
    left = here.descriptors(BESIEGED) - descriptors
    yield figure("siege", case, f"descriptors {plan.after_s:.0f} s after", "more", [left])


def _list_text(values: list[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


def _measure_turns(here: Swarm, twin: Swarm, plan: Plan) -> Measured:
    """Measure rests and sieges by turns; a rest is first and last."""
    seen = Measured()
    for _ in range(plan.turns):
        _measure_turn(here, twin, plan.turn_s, seen.rest, seen.twin_rest)
        with _attacker(here, plan.force, plan.turn_s + OPENED_WITHIN_S, seen.attacks):
            _measure_turn(here, twin, plan.turn_s, seen.siege, seen.twin_siege)
    _measure_turn(here, twin, plan.turn_s, seen.rest, seen.twin_rest)
    return seen


def _measure_turn(here: Swarm, twin: Swarm, turn_s: float, rate: list[float], twin_rate: list[float]) -> None:
    """Append the rounds per second of each swarm over `turn_s` seconds to its list."""
    begun, first, twin_first = time.monotonic(), here.last_round(BESIEGED), twin.last_round(BESIEGED)
    time.sleep(turn_s)
    here_last, twin_last = here.last_round(BESIEGED), twin.last_round(BESIEGED)
    lasted_s = time.monotonic() - begun
    rate.append((here_last - first) / lasted_s)
    twin_rate.append((twin_last - twin_first) / lasted_s)


@contextmanager
def _attacker(here: Swarm, force: Force, seconds: float, seen: list[Mapping[str, int]]) -> Iterator[None]:
    """Attack the besieged node while the context is entered.

    It is entered when the attacker has opened all connections. What the attacker counted so far is appended
    to `seen`. Raises UserError if it ends early.
    """
    argv = [sys.executable, "-m", "benchmarks.siege.attacker", "--endpoint", here.endpoints[BESIEGED]]
    argv += ["--seconds", str(seconds)]
    argv += [part for kind, count in asdict(force).items() for part in (f"--{kind}", str(count))]
    before_s = cpu_seconds(here.pid(BESIEGED))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as attacker:
        try:
            if attacker.stdout is None:
                raise UserError("siege: the attacker has no output")
            opened = json.loads(attacker.stdout.readline() or "{}").get("opened")
            if not isinstance(opened, dict):
                raise UserError("siege: the attacker ended before it had opened its connections")
            spent_s = cpu_seconds(here.pid(BESIEGED)) - before_s
            seen.append({**opened, "node's CPU ms": int(1000 * spent_s)})
            yield
        finally:
            attacker.kill()


def _restart_member(here: Swarm, plan: Plan) -> tuple[float, float]:
    """Kill and restart a member in a siege; return the seconds until it listens, then to a joint round."""
    with _attacker(here, plan.force, REJOINS_WITHIN_S + OPENED_WITHIN_S, []):
        here.kill(KILLED)
        begun = time.monotonic()
        here.start(KILLED)
        here.wait_listening(KILLED, REJOINS_WITHIN_S)
        listening_s = time.monotonic() - begun
        return listening_s, here.wait_rounds(KILLED, 1, REJOINS_WITHIN_S)


def _asking_figure(here: Swarm, plan: Plan) -> Figure:
    """Return the rounds per second while clients request the status, divided by those afterwards."""
    begun, first = time.monotonic(), here.last_round(BESIEGED)
    _request_status(here.endpoints[BESIEGED], plan.gets)
    asking_s = time.monotonic() - begun
    asked = (here.last_round(BESIEGED) - first) / asking_s
    middle_s, middle = time.monotonic(), here.last_round(BESIEGED)
    time.sleep(max(asking_s, plan.turn_s))
    rest = (here.last_round(BESIEGED) - middle) / (time.monotonic() - middle_s)
    note = f"{asked:.2f} rounds/s while asked for {asking_s:.1f} s, {rest:.2f} after"
    return figure(
        "siege", f"{plan.gets} GETs", "pace, asked / rest", "", [asked / rest if rest else 0.0], note=note
    )


def _request_status(endpoint: str, gets: int) -> None:
    """Request /v1/status `gets` times, by ASKERS threads at once."""
    askers = [threading.Thread(target=_request_some, args=(endpoint, gets // ASKERS)) for _ in range(ASKERS)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()


def _request_some(endpoint: str, gets: int) -> None:
    for _ in range(gets):
        asked = http.client.HTTPConnection(*split_endpoint(endpoint), timeout=20)
        with suppress(OSError, http.client.HTTPException):
            asked.request("GET", "/v1/status")
            asked.getresponse().read()
        asked.close()


SIEGE = Benchmark(add_options, run)
