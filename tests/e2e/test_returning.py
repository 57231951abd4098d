"""Nodes leave one by one, or are killed repeatedly, and restart: soon all are in one sum again.

The last node to leave holds the newest model; all others have an older one.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgpack
import pytest

from tests.e2e.processes import Event, Process
from tests.e2e.swarm import Swarm, fact, history

FOR_EVER = 100_000
LEAST = 3
BACK_WITHIN_S = 60.0
TRIALS = 20
BETWEEN_ROUNDS = 2
KILLS, KILLING_S = 77, 120.0
CALM_WITHIN_S = 30.0
pause = threading.Event()  # is never set: what is waited for is time


def goes_on(node: Process, rounds: int) -> None:
    """Waits until this many more rounds have ended, the last of them with a model."""
    last = max((event["round"] for event in node.events("round")), default=0)
    aggregated = lambda event: event["outcome"] == "aggregated" and event["round"] >= last + rounds  # noqa: E731
    node.event_after("round", aggregated)


def leave_one_by_one(nodes: dict[int, Process], order: list[int]) -> None:
    """Stops the nodes one by one; each remaining group makes some models, and the last two can make none."""
    for number in order:
        if len(nodes) >= LEAST:
            goes_on(nodes[number], BETWEEN_ROUNDS)
        node = nodes.pop(number)
        node.send(signal.SIGINT)
        assert node.status() == 130


def come_back(swarm: Swarm, order: list[int]) -> dict[int, Process]:
    """Restarts the nodes with the same commands; each must be in a sum of all in time."""
    nodes = {number: swarm.start(number) for number in order}
    for node in nodes.values():
        node.event_after("round", lambda event: event["participants"] == swarm.count, BACK_WITHIN_S)
    return nodes


def generations(swarm: Swarm) -> list[int]:
    """Returns the generation of each node's model."""
    return [msgpack.unpackb(fact(swarm.out(number), "base"))[0] for number in range(swarm.count)]


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Loads the machine with other work, at a lower priority."""
    loop = ["nice", "-n", "5", sys.executable, "-c", "while True: pass"]
    working = [subprocess.Popen(loop) for _ in range(loops)]
    try:
        yield
    finally:
        for each in working:
            each.kill()
            each.wait()


def trial(swarm: Swarm, nodes: dict[int, Process], seed: int) -> dict[int, Process]:
    """Stops and restarts all nodes in orders drawn from a seed; no agreed model may be lost."""
    rng = random.Random(seed)
    leaving = rng.sample(range(swarm.count), swarm.count)
    leave_one_by_one(nodes, leaving)
    newest = max(generations(swarm))
    nodes = come_back(swarm, rng.sample(range(swarm.count), swarm.count))
    assert min(generations(swarm)) > newest
    return nodes


def test_six_leave_one_by_one_and_come_back(make_swarm) -> None:
    swarm: Swarm = make_swarm(6, FOR_EVER)
    nodes = trial(swarm, dict(enumerate(swarm.start_all())), seed=1)
    for node in nodes.values():
        node.send(signal.SIGINT)
    assert {node.status() for node in nodes.values()} == {130}
    assert fact(swarm.out(0), "line") is not None


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("count", [6, 8])
def test_they_come_back_twenty_times_in_a_row_on_a_busy_machine(make_swarm, count: int) -> None:
    swarm: Swarm = make_swarm(count, FOR_EVER)
    nodes = dict(enumerate(swarm.start_all()))
    with busy(2):
        for seed in range(TRIALS):
            nodes = trial(swarm, nodes, seed)
            print(f"{count} nodes, trial {seed}: generations {sorted(generations(swarm))}")


@pytest.mark.soak
@pytest.mark.slow
def test_eight_nodes_and_seventy_seven_kills(make_swarm) -> None:
    """Two minutes of kills; then all nodes run undisturbed."""
    swarm: Swarm = make_swarm(8, FOR_EVER)
    nodes = dict(enumerate(swarm.start_all()))
    rng = random.Random(77)
    for _ in range(KILLS):
        pause.wait(KILLING_S / KILLS)
        victim = rng.randrange(swarm.count)
        nodes[victim].send(signal.SIGKILL)
        assert nodes[victim].status() == -signal.SIGKILL
        nodes[victim] = swarm.start(victim)
    seen = {number: len(node.events("round")) for number, node in nodes.items()}
    for number, node in nodes.items():
        since = seen[number]

        def is_of_all(event: Event, node: Process = node, since: int = since) -> bool:
            is_new = event in node.events("round")[since:]
            return is_new and event["participants"] == swarm.count

        node.event_after("round", is_of_all, CALM_WITHIN_S)
    for node in nodes.values():
        node.send(signal.SIGINT)
    assert {node.status() for node in nodes.values()} == {130}
    told = [{line["round"]: line for line in history(swarm.out(number))} for number in range(swarm.count)]
    common = set.intersection(*(set(lines) for lines in told))
    of_all = [each for each in common if told[0][each]["participants"] == swarm.count]
    assert len({lines[max(of_all)]["base_digest"] for lines in told}) == 1
    print(f"{KILLS} kills; rounds {sorted(max(lines) for lines in told)}, the last one of all {max(of_all)}")
