"""Compares settings on held-out training rows, and reads those of the table on the test rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from math import sqrt
from statistics import mean, stdev

from benchmarks.rates.cases import CASES, Case, Folders, for_choosing, for_reading
from benchmarks.rates.simulation import Settings, by_table, outcome, without_privacy
from benchmarks.spec import Row
from node.data.dataset import Dataset
from node.task.step_defaults import StepDefaults
from scenarios.study.threads import one_thread


@dataclass(frozen=True)
class Grid:
    """What is varied: factors of the table's rate and clip, and steps and batches; none: the table's."""

    factors: Sequence[float]
    steps: Sequence[float]
    batches: Sequence[float]
    clips: Sequence[float]

    def around(self, found: StepDefaults, rows: int) -> Iterator[tuple[bool, StepDefaults]]:
        """Yield whether they are the table's own, and the settings."""
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
    """The values of some seeds."""

    values: Sequence[float]
    seconds: float

    @property
    def mean(self) -> float:
        """Their mean."""
        return mean(self.values)

    @property
    def standard_error(self) -> float | None:
        """That of their mean; None for one value."""
        return stdev(self.values) / sqrt(len(self.values)) if len(self.values) > 1 else None


def choosing(
    names: Sequence[str], epsilons: Sequence[float], grid: Grid, seeds: Sequence[int], folders: Folders
) -> Iterator[Row]:
    """Yield a row for each setting around the table's, on held-out training rows, and one for the best."""
    for case, epsilon in product(map(CASES.__getitem__, names), epsilons):
        rows = len(for_choosing(case, folders, 0).train_y)
        table = by_table(case, rows, epsilon, case.peers, case.usual_honest)
        found: list[tuple[Measured, bool, Settings]] = []
        for is_table, steps in grid.around(table.steps, rows):
            settings = replace(table, steps=steps)
            measured = _over(seeds, case, settings, partial(for_choosing, case, folders))
            found.append((measured, is_table, settings))
            yield _row("held-out", case, settings, measured, rows, is_table=is_table)
        best = max(found, key=lambda one: one[0].mean)
        for measured, is_table, _ in found:
            if is_table:
                yield Row(
                    f"{case.name:16} eps {epsilon:g}: the table is {best[0].mean - measured.mean:.4f} below "
                    f"the best, rate {best[2].steps.learning_rate:g}"
                )


def reading(
    names: Sequence[str], epsilons: Sequence[float], seeds: Sequence[int], folders: Folders
) -> Iterator[Row]:
    """Yield rows for the table's settings on the test rows, for the AUC beside plain training."""
    for case in map(CASES.__getitem__, names):
        load = partial(for_reading, case, folders)
        rows = len(load(0).train_y)
        plain: Measured | None = None
        if case.metric == "auc":
            plain = _timed(seeds, partial(_without_privacy, case, load))
            yield _plain_row(case, plain)
        for epsilon in epsilons:
            shared = by_table(case, rows, epsilon, case.peers, case.honest)
            measured = _over(seeds, case, shared, load)
            yield _row("test", case, shared, measured, rows, goal=_goal(case, epsilon, plain))


def _goal(case: Case, epsilon: float, plain: Measured | None) -> float | None:
    """Return the least that is asked for; None for no goal."""
    goal = case.goals.get(epsilon)
    return goal if goal is None or plain is None else plain.mean - goal


def _over(seeds: Sequence[int], case: Case, settings: Settings, load: Callable[[int], Dataset]) -> Measured:
    return _timed(seeds, lambda seed: outcome(case, load(seed), settings, seed))


def _without_privacy(case: Case, load: Callable[[int], Dataset], seed: int) -> float:
    return without_privacy(case, load(seed), seed)


def _timed(seeds: Sequence[int], value: Callable[[int], float]) -> Measured:
    begun = time.perf_counter()
    with one_thread():
        values = [value(seed) for seed in seeds]
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
        f"{case.metric} {_said(measured)}"
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
        **_recorded(case, measured),
    }
    if goal is not None:
        record |= {"at_least": goal, "holds": measured.mean >= goal}
    return Row(text, record)


def _plain_row(case: Case, measured: Measured) -> Row:
    text = f"{case.name:16} plain    no privacy, all rows together  {case.metric} {_said(measured)}"
    return Row(text, {"case": case.name, "kind": "plain", **_recorded(case, measured)})


def _recorded(case: Case, measured: Measured) -> dict[str, object]:
    return {
        "metric": case.metric,
        "mean": measured.mean,
        "standard_error": measured.standard_error,
        "values": list(measured.values),
        "seconds": measured.seconds,
    }


def _said(measured: Measured) -> str:
    error = measured.standard_error
    return f"{measured.mean:.4f}" + ("" if error is None else f" ± {error:.4f}")
