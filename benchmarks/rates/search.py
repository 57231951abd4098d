"""Compares settings on held-out training rows, and checks the table's on the test rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from math import sqrt
from statistics import mean, stdev

from benchmarks.rates.cases import CASES, Case, Folders, full_split, validation_split
from benchmarks.rates.simulation import Settings, plain_metric, private_metric, table_settings
from benchmarks.spec import Row
from node.data.dataset import Dataset
from node.task.step_defaults import StepDefaults
from scenarios.study.threads import one_thread


@dataclass(frozen=True)
class Grid:
    """What is varied: factors of the table's learning rate and clipping radius, steps, and batches.

    No steps or no batches: the table's.
    """

    factors: Sequence[float]
    steps: Sequence[float]
    batches: Sequence[float]
    clips: Sequence[float]

    def settings_around(self, found: StepDefaults, rows: int) -> Iterator[tuple[bool, StepDefaults]]:
        """Yield each setting, after whether it is `found`, the table's own.

        A factor of the radius divides the rate, so that steps keep their length. A batch is at most `rows`.
        """
        every = product(
            self.clips, self.steps or (found.steps,), self.batches or (found.expected_batch,), self.factors
        )
        for clip, steps, batch, factor in every:
            changed = replace(
                found,
                steps=int(steps),
                report_every=min(int(steps), found.report_every),
                expected_batch=min(rows, int(batch)),
                learning_rate=found.learning_rate * factor / clip,
                clipping_radius=found.clipping_radius * clip,
            )
            yield changed == found, changed


@dataclass(frozen=True)
class Measured:
    """A metric with each seed, and the seconds of all runs."""

    values: Sequence[float]
    seconds: float

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return mean(self.values)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None for one seed."""
        return stdev(self.values) / sqrt(len(self.values)) if len(self.values) > 1 else None


def compare_settings(
    names: Sequence[str], epsilons: Sequence[float], grid: Grid, seeds: Sequence[int], folders: Folders
) -> Iterator[Row]:
    """Yield a row for each setting, on held-out training rows, and how far the table's is below the best."""
    for case, epsilon in product(map(CASES.__getitem__, names), epsilons):
        rows = len(validation_split(case, folders, 0).train_y)
        table = table_settings(case, rows, epsilon, case.peers, case.usual_honest)
        found: list[tuple[Measured, bool, Settings]] = []
        for is_table, steps in grid.settings_around(table.steps, rows):
            settings = replace(table, steps=steps)
            load = partial(validation_split, case, folders)
            measured = _measure(seeds, case, load, partial(private_metric, settings))
            found.append((measured, is_table, settings))
            yield _row("held-out", case, settings, measured, rows, is_table=is_table)
        best = max(found, key=lambda one: one[0].mean)
        for measured, is_table, _ in found:
            if is_table:
                yield Row(
                    f"{case.name:16} eps {epsilon:g}: the table is {best[0].mean - measured.mean:.4f} below "
                    f"the best, rate {best[2].steps.learning_rate:g}"
                )


def check_table(
    names: Sequence[str], epsilons: Sequence[float], seeds: Sequence[int], folders: Folders
) -> Iterator[Row]:
    """Yield a row for the table's settings at each epsilon, on test rows; for the AUC a plain one first."""
    for case in map(CASES.__getitem__, names):
        load = partial(full_split, case, folders)
        rows = len(load(0).train_y)
        plain: Measured | None = None
        if case.metric == "auc":
            plain = _measure(seeds, case, load, plain_metric)
            text = f"{case.name:16} plain    no privacy, all rows together  {case.metric} {_mean_text(plain)}"
            yield Row(text, {"case": case.name, "kind": "plain", **_record(case, plain)})
        for epsilon in epsilons:
            shared = table_settings(case, rows, epsilon, case.peers, case.honest)
            measured = _measure(seeds, case, load, partial(private_metric, shared))
            goal = case.goals.get(epsilon)  # the least metric, or how far below the plain one it may be
            if goal is not None and plain is not None:
                goal = plain.mean - goal
            yield _row("test", case, shared, measured, rows, goal=goal)


def _measure(
    seeds: Sequence[int],
    case: Case,
    load: Callable[[int], Dataset],
    metric: Callable[[Case, Dataset, int], float],
) -> Measured:
    begun = time.perf_counter()
    with one_thread():
        values = [metric(case, load(seed), seed) for seed in seeds]
    return Measured(values, time.perf_counter() - begun)


def _row(
    kind: str,
    case: Case,
    settings: Settings,
    measured: Measured,
    rows: int,
    is_table: bool = True,
    goal: float | None = None,
) -> Row:
    steps = settings.steps
    text = (
        f"{case.name:16} {kind:8} eps {settings.epsilon:g}  x{settings.variance:.2f}  {steps.steps} steps of "
        f"{steps.expected_batch:5}  rate {steps.learning_rate:<8g} clip {steps.clipping_radius:<5g} "
        f"{case.metric} {_mean_text(measured)}"
    )
    text += "  table" if is_table else ""
    if goal is not None:
        text += f"  {'✓' if measured.mean >= goal else '✗'} at least {goal:.4f}"
    record: dict[str, object] = {
        "case": case.name,
        "kind": kind,
        "model": case.model,
        "rows": rows,
        "epsilon": settings.epsilon,
        "members": settings.members,
        "honest": settings.honest,
        "variance": settings.variance,
        **asdict(steps),
        "table": is_table,
        **_record(case, measured),
    }
    if goal is not None:
        record |= {"at_least": goal, "holds": measured.mean >= goal}
    return Row(text, record)


def _record(case: Case, measured: Measured) -> dict[str, object]:
    return {
        "metric": case.metric,
        "mean": measured.mean,
        "standard_error": measured.standard_error,
        "values": list(measured.values),
        "seconds": measured.seconds,
    }


def _mean_text(measured: Measured) -> str:
    error = measured.standard_error
    return f"{measured.mean:.4f}" + ("" if error is None else f" ± {error:.4f}")
