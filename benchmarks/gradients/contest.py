"""Times the kinds of gradients by turns."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
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
from node.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
MOST_ROWS, RADIUS = 60_000, 1.0
PLAIN, OURS, VMAP = "plain", "ours", "vmap"
OPACUS = ("opacus-ghost", "opacus")
TIMES_PLAIN = {"mlp": 4.0, "cnn": 2.2, "cnn-groupnorm": 4.0, "attention": 2.5}
TIMES_OPACUS = {"mlp": 1.1, "cnn": 1.1}
"""The most that ours may take, in units of a plain step and of Opacus' faster mode."""


def findings(batch: int, turns: int, opacus: Path | None) -> Iterator[Row]:
    """Yield a row for each model and kind. `opacus`: the Python of an environment that has it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ExitStack() as stack:
            other = None if opacus is None else Opacus(stack.enter_context(_started(opacus)))
            for name in MODELS:
                yield from _of_model(name, batch, turns, other)
    finally:
        torch.set_num_threads(threads)


def _of_model(name: str, batch: int, turns: int, other: Opacus | None) -> Iterator[Row]:
    steps = _steps(name, batch)
    kinds = (*steps, *(OPACUS if other is not None else ()))
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(turns):
        for kind in kinds:
            taken[kind].append(cpu_ms(steps[kind]) if kind in steps else _asked(other, name, batch, kind))
    ms = {kind: median(values) for kind, values in taken.items()}
    for kind in kinds:
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


def _steps(name: str, batch: int) -> dict[str, Callable[[], object]]:
    """Return what is timed, by kind. Raises UserError if book-keeping does not fit the model."""
    model, x, y = MODELS[name].built(batch)
    objective = Objective(model, dict(model.named_parameters()), _loss, (x[:1], y[:1]))
    total = ClippedSum(objective, RADIUS, MOST_ROWS, float(batch))
    if total.method != BOOK_KEEPING:
        raise UserError(f"gradients: the model {name!r} is not computed by book-keeping: {total.method}")
    rows = block_rows(batch, sum(objective.sizes))
    in_full = Way(method=PerExample(objective), rows=rows, lanes=1, one_thread=False)
    return {
        PLAIN: lambda: _plain(model, x, y),
        OURS: lambda: total(x, y),
        VMAP: lambda: _in_full(in_full, objective, x, y),
    }


def _plain(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    model.zero_grad()
    torch.autograd.backward(functional.cross_entropy(model(x), y))


def _in_full(way: Way, objective: Objective, x: torch.Tensor, y: torch.Tensor) -> None:
    _, total = objective.zeros()
    for block in way.blocks(x, y):
        gradients, _ = way.gradients(block)
        weights = torch.where(block.taken, (RADIUS / norms_of(gradients)).clamp(max=1.0), 0.0)
        add_all(gradients, total, weights)


def _loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The node's own form of cross-entropy for single rows."""
    return -torch.log_softmax(outputs, 1).gather(1, targets.unsqueeze(1)).mean()


class Opacus:
    """A process in another environment that times Opacus when it is asked to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Raises UserError if the process does not say which version it has."""
        self._process = process
        self.version = str(self._answer())

    def ms(self, name: str, batch: int, kind: str) -> float:
        """Return the CPU time of one step in milliseconds."""
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


def _started(python: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-m", "benchmarks.gradients.opacus"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _asked(other: Opacus | None, name: str, batch: int, kind: str) -> float:
    return 0.0 if other is None else other.ms(name, batch, kind)
