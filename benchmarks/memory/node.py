"""The memory of one of four whole nodes on loopback, which train a wide linear model."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.memory.residence import OtherPeak
from node.system.errors import UserError
from node.task.load import load_task
from node.task.sections import Task
from scenarios.frame.children import Child, Children, warm_up
from scenarios.swarms.history import read_summary
from scenarios.swarms.nodes import SwarmPlan, endpoints_of, listeners, node_options

PEERS, ROUNDS, ROWS, OUTPUTS = 4, 2, 48, 1000
STARTED = "out: "  # how the last line begins that a node prints before its first round
START_S, RUN_S = 120.0, 600.0
_POLL_S = 0.002
_TASK = """
[task]
name = "wide"
[model]
class = "node.models:Linear"
args = {{ inputs = {inputs}, outputs = {outputs} }}
[train]
rounds = {rounds}
epochs = 1
batch_size = 16
optimizer = "sgd"
learning_rate = 0.01
momentum = 0.9
[aggregation]
protocol = "additive"
shares = "{kind}"
"""


@dataclass(frozen=True)
class NodePeak:
    """A node's peak above its rest, and its rest, in bytes; and the exact dimension of its model."""

    above_rest: int
    rest: int
    dimension: int


def node_peak(kind: str, dimension: int) -> NodePeak:
    """Run the nodes; measure the first one from when it has loaded its data and its model.

    `dimension`: of the model, which is that or the next smaller multiple of OUTPUTS. Raises UserError.
    """
    inputs = dimension // OUTPUTS - 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = _write_data(folder, inputs)
        task_file = folder / "wide.toml"
        task_file.write_text(_TASK.format(inputs=inputs, outputs=OUTPUTS, rounds=ROUNDS, kind=kind), "utf-8")
        above_rest, rest = _run_nodes(load_task(str(task_file), ()), data, folder)
    return NodePeak(above_rest, rest, OUTPUTS * (inputs + 1))


def _write_data(folder: Path, inputs: int) -> list[Path]:
    """Write a file for each node, of rows x (ROWS, inputs) and labels y (ROWS,); return their paths."""
    files = [folder / f"{peer}.npz" for peer in range(PEERS)]
    for peer, file in enumerate(files):
        rng = np.random.default_rng(peer)
        x = rng.standard_normal((ROWS, inputs), dtype=np.float32)
        np.savez(file, x=x, y=rng.integers(0, OUTPUTS, ROWS))
    return files


def _run_nodes(task: Task, data: list[Path], folder: Path) -> tuple[int, int]:
    warm_up()
    with ExitStack() as stack:
        sockets = stack.enter_context(listeners(PEERS))
        children = stack.enter_context(Children())
        plan, endpoints = SwarmPlan(task, PEERS, ROUNDS, folder), endpoints_of(sockets)
        started: list[Child] = []
        peak: OtherPeak | None = None
        for peer, listener in enumerate(sockets):
            options = replace(node_options(plan, peer, endpoints), shard=None, data=data[peer])
            log = plan.peer_folder(peer) / "log.txt"
            started.append(children.start(f"peer {peer}", log, "node.app.run:run", options, listener))
            if peak is None:
                peak = stack.enter_context(OtherPeak(_wait_for_start(started[0], children)))
        _wait_for_end(children)
        summary = read_summary(plan.peer_folder(0) / "summary.json")
        if peak is None or summary is None or summary.aggregated < ROUNDS:
            raise UserError("memory: the node did not aggregate every round, so its peak says nothing")
        return peak.above_rest, peak.rest


def _wait_for_start(child: Child, children: Children) -> int:
    """Wait until a node has printed all that it prints before its first round; return its process id."""
    deadline = time.monotonic() + START_S
    while not (child.log.exists() and STARTED in child.log.read_text("utf-8", "replace")):
        children.running()
        if time.monotonic() > deadline:
            raise UserError(f"memory: the node did not start within {START_S:.0f} s")
        children.wait(_POLL_S)
    if child.process.pid is None:
        raise UserError("memory: the node has no process id")
    return child.process.pid


def _wait_for_end(children: Children) -> None:
    deadline = time.monotonic() + RUN_S
    while children.running():
        if time.monotonic() > deadline:
            raise UserError(f"memory: the nodes did not end within {RUN_S:.0f} s")
        children.wait(1.0)
