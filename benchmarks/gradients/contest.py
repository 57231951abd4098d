"""Times all kinds of gradients by turns."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.nn import functional

from benchmarks.gradients.models import MODELS, cpu_ms
from benchmarks.machine import versions
from benchmarks.spec import Row
from mechanisms.gradients.blocks import Way, block_rows
from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.layers import add_all, norms_of
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.per_example import PerExample
from mechanisms.gradients.trial import BOOK_KEEPING
from node.system.errors import UserError
from scenarios.study.threads import one_thread

ROOT = Path(__file__).resolve().parents[2]
MOST_ROWS, RADIUS = 60_000, 1.0
PLAIN, OURS, VMAP = "plain", "ours", "vmap"
OPACUS = ("opacus-ghost", "opacus")
TIMES_PLAIN = {"mlp": 4.0, "cnn": 2.2, "cnn-groupnorm": 4.0, "attention": 2.5}
TIMES_OPACUS = {"mlp": 1.1, "cnn": 1.1}
"""How long ours may take, in multiples of a plain step, and of Opacus' faster mode."""


def findings(batch: int, turns: int, opacus: Path | None) -> Iterator[Row]:
    """Yield a row for each model and kind. `opacus`: the Python of an environment with Opacus, if any."""
    with one_thread(), ExitStack() as stack:
        other = None if opacus is None else Opacus(stack.enter_context(_start_opacus(opacus)))
        for name in MODELS:
            yield from _model_rows(name, batch, turns, other)


def _model_rows(name: str, batch: int, turns: int, other: Opacus | None) -> Iterator[Row]:
    timers = {kind: partial(cpu_ms, step) for kind, step in _our_steps(name, batch).items()}
    if other is not None:
        timers |= {kind: partial(other.ms, name, batch, kind) for kind in OPACUS}
    taken: dict[str, list[float]] = {kind: [] for kind in timers}
    for _ in range(turns):
        for kind, timer in timers.items():
            taken[kind].append(timer())
    ms = {kind: median(values) for kind, values in taken.items()}
    for kind in ms:
        limits = {"plain": TIMES_PLAIN[name]} if kind == OURS else {}
        if kind == OURS and other is not None and name in TIMES_OPACUS:
            limits["opacus"] = TIMES_OPACUS[name]
        yield _row(name, batch, kind, ms, limits, other)


def _row(
    name: str,
    batch: int,
    kind: str,
    ms: Mapping[str, float],
    limits: Mapping[str, float],
    other: Opacus | None,
) -> Row:
    text = f"{name:14} {batch:5} rows  {kind:13} {ms[kind]:9.2f} ms {ms[kind] / ms[PLAIN]:8.2f} x plain"
    record: dict[str, object] = {
        "model": name,
        "batch": batch,
        "kind": kind,
        "ms": ms[kind],
        "threads": 1,
        "times_plain": ms[kind] / ms[PLAIN],
    }
    for beside, most in limits.items():
        reference = ms[PLAIN] if beside == "plain" else min(ms[one] for one in OPACUS)
        times = ms[kind] / reference
        text += f"  {'✓' if times <= most else '✗'} {times:.2f} of {beside}, at most {most:g}"
        record[f"times_{beside}"], record[f"at_most_times_{beside}"] = times, most
    if other is not None:
        record["versions"] = {**versions(), "opacus": other.version}
    return Row(text, record)


def _our_steps(name: str, batch: int) -> dict[str, Callable[[], object]]:
    """Return a step of each kind but Opacus'. Raises UserError if book-keeping does not fit the model."""
    model, x, y = MODELS[name].build(batch)
    objective = Objective(model, dict(model.named_parameters()), _loss, (x[:1], y[:1]))
    total = ClippedSum(objective, RADIUS, MOST_ROWS, float(batch))
    if total.method != BOOK_KEEPING:
        raise UserError(f"gradients: the model {name!r} is not computed by book-keeping: {total.method}")
    rows = block_rows(batch, sum(objective.sizes))
    in_full = Way(method=PerExample(objective), rows=rows, lanes=1, one_thread=False)
    return {
        PLAIN: lambda: _step_plainly(model, x, y),
        OURS: lambda: total(x, y),
        VMAP: lambda: _step_in_full(in_full, objective, x, y),
    }


def _step_plainly(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    model.zero_grad()
    torch.autograd.backward(functional.cross_entropy(model(x), y))


def _step_in_full(way: Way, objective: Objective, x: torch.Tensor, y: torch.Tensor) -> None:
    _, total = objective.zeros()
    for block in way.blocks(x, y):
        gradients, _ = way.gradients(block)
        weights = torch.where(block.taken, (RADIUS / norms_of(gradients)).clamp(max=1.0), 0.0)
        add_all(gradients, total, weights)


def _loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of single rows, in the form that a node has."""
    return -torch.log_softmax(outputs, 1).gather(1, targets.unsqueeze(1)).mean()


class Opacus:
    """A process in another environment that times steps of Opacus (benchmarks.gradients.opacus)."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Wait for the version of Opacus. Raises UserError if the process ends."""
        self._process = process
        self.version = str(self._answer())

    def ms(self, name: str, batch: int, kind: str) -> float:
        """Return the CPU milliseconds of a step. Raises UserError if the process ends."""
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps([name, batch, kind]) + "\n")
            self._process.stdin.flush()
        return float(str(self._answer()))

    def _answer(self) -> object:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise UserError(
                "gradients: the environment of --opacus gave no answer; is opacus installed there?"
            )
        return json.loads(line)


def _start_opacus(python: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-m", "benchmarks.gradients.opacus"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
