"""Statistics of three sites by secure sums, beside the same of the pooled rows computed another way.

The rows are made: a trial with a number, a count and a time to an event that depend on age, dose and arm. The
figure of a cell is an error: the largest difference of an estimate, or of its standard error, from the pooled
one, as a share of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.jobs.statistics.columns import Category, Column, Number, Table
from node.jobs.statistics.glm import Family
from node.stats.estimates import Fit
from node.stats.plan import plan
from node.stats.results import results
from node.stats.summaries import Results
from node.system.errors import UserError
from node.task.rules import read_section
from node.task.statistics import StatisticsSection
from scenarios.study.cells import NO_EPSILON, Outcome, Room
from scenarios.swarms.job_sums import replay_job
from scenarios.tables.fixed import FixedCell
from scenarios.tables.models import SUMS, WORDS

Statistic = Literal["means", "gaussian", "binomial", "poisson", "kaplan-meier", "cox"]
_SITES, _ROWS = 3, 1500
_LAST_DAY = 400.0
_COLUMNS: Mapping[str, Column] = {
    column.name: column
    for column in (
        Number("age", 20.0, 90.0),
        Number("dose", 0.0, 10.0),
        Category("arm", ("A", "B")),
        Number("weight", -200.0, 200.0),
        Category("ill", ("no", "yes")),
        Number("visits", 0.0, 200.0),
        Number("days", 0.0, _LAST_DAY),
        Category("died", ("no", "yes")),
    )
}
_TERMS = ("age", "dose", "arm")
_STEPS, _COX_STEPS = 30, 8


@dataclass(frozen=True)
class StatisticsCell(FixedCell):
    """One statistic with one seed, which makes the rows."""

    arm: str
    statistic: Statistic
    seed: int = 0
    kind: ClassVar[str] = "statistics"

    def check(self, room: Room) -> None:
        """See Cell.check: nothing is needed."""

    def replay(self, room: Room) -> Outcome:
        """Run the job of three sites in this process, and compare. Raises UserError."""
        begun = time.perf_counter()
        rows = made_rows(self.seed)
        asked = plan(read_section(StatisticsSection, "statistics", _ASKED[self.statistic]), _COLUMNS)
        sites = [{name: cells[site::_SITES] for name, cells in rows.items()} for site in range(_SITES)]
        run = replay_job([asked.job(site) for site in sites])
        found = results(asked, run.base, _SITES)
        if found is None:
            raise UserError(f"{self.statistic}: the sums of three sites ended before table one")
        ours = _estimates(self.statistic, found)
        theirs = _POOLED[self.statistic](rows)
        error = float(np.max(np.abs(ours - theirs) / np.abs(theirs)))
        room.say(1, error)
        facts = {
            **NO_EPSILON,
            "protects": "nothing: members see exact totals",
            SUMS: run.sums,
            WORDS: run.words,
        }
        return Outcome((error,), facts, time.perf_counter() - begun)


def made_rows(seed: int) -> Table:
    """A trial's rows; one in twenty has no dose."""
    rng = np.random.default_rng([47, seed])
    age, dose = rng.uniform(20, 90, _ROWS), rng.uniform(0, 10, _ROWS)
    arm = rng.integers(0, 2, _ROWS).astype(np.float64)
    risk = 0.03 * (age - 55) + 0.1 * (dose - 5) - 0.6 * arm
    days = np.ceil(rng.exponential(120 * np.exp(-risk)))
    return {
        "age": age,
        "dose": np.where(rng.random(_ROWS) < 0.05, np.nan, dose),
        "arm": arm,
        "weight": 70 + 5 * risk + rng.normal(0, 8, _ROWS),
        "ill": (rng.random(_ROWS) < 1 / (1 + np.exp(-risk))).astype(np.float64),
        "visits": rng.poisson(np.exp(0.5 + risk / 2)).clip(0, 200).astype(np.float64),
        "days": np.minimum(days, _LAST_DAY),
        "died": (days < _LAST_DAY).astype(np.float64),
    }


# -- what three sites find ---------------------------------------------------------------------------------

_ASKED: Mapping[Statistic, Mapping[str, Any]] = {
    "means": {},
    "gaussian": {"models": [{"formula": "weight ~ age + dose + arm", "family": "gaussian"}]},
    "binomial": {"models": [{"formula": "ill ~ age + dose + arm", "family": "binomial"}]},
    "poisson": {"models": [{"formula": "visits ~ age + dose + arm", "family": "poisson"}]},
    "kaplan-meier": {"survival": [{"time": "days", "event": "died", "by": "arm", "grid": 1.0}]},
    "cox": {"survival": [{"time": "days", "event": "died", "grid": 1.0, "cox": list(_TERMS)}]},
}


def _estimates(statistic: Statistic, found: Results) -> Doubles:
    match statistic:
        case "means":
            numbers = [column for column in found.table_one.columns if hasattr(column, "moments")]
            return np.array([column.moments[0] for column in numbers], np.float64).ravel()
        case "kaplan-meier":
            return np.concatenate([curve.survival for _, curve in found.survival[0].curves])
        case "cox":
            cox = found.survival[0].cox
            return _values(None if cox is None else cox.fit)
        case _:
            return _values(found.models[0].fit)


def _values(fit: Fit | None) -> Doubles:
    if fit is None:
        raise ValueError("a model of made rows settles")
    return np.array([(one.value, one.error) for one in fit.estimates]).ravel()


# -- the same of pooled rows -------------------------------------------------------------------------------


def _means(rows: Table) -> Doubles:
    numbers = [rows[name] for name, column in _COLUMNS.items() if isinstance(column, Number)]
    return np.array([(np.nanmean(cells), np.nanstd(cells, ddof=1)) for cells in numbers]).ravel()


def _glm(family: Family, response: str) -> Callable[[Table], Doubles]:
    """Reweighted least squares by QR, in the columns' own units (McCullagh & Nelder 1989, 2.5)."""

    def fitted(rows: Table) -> Doubles:
        x, y = _complete(rows, rows[response])
        x = np.column_stack([np.ones(len(x)), x])
        points: Doubles = np.zeros(x.shape[1])
        inverse: Doubles = np.eye(x.shape[1])
        if family == "poisson":
            points[0] = np.log(y.mean())
        for _ in range(_STEPS):
            eta = x @ points
            if family == "gaussian":
                mu, weights = eta, np.ones(len(y))
            elif family == "binomial":
                mu = 1 / (1 + np.exp(-eta))
                weights = mu * (1 - mu)
            else:
                mu = weights = np.exp(eta)
            root = np.sqrt(weights)
            q, r = np.linalg.qr(x * root[:, None])
            inverse = np.linalg.inv(r)
            points = inverse @ (q.T @ (root * (eta + (y - mu) / weights)))
        dispersion = ((y - x @ points) ** 2).sum() / (len(y) - len(points)) if family == "gaussian" else 1.0
        return np.column_stack([points, np.sqrt(dispersion * (inverse**2).sum(axis=1))]).ravel()

    return fitted


def _cox(rows: Table) -> Doubles:
    """Newton's method on Breslow's partial likelihood, each risk set by itself."""
    died = rows["died"] == 1
    x, days = _complete(rows, rows["days"])
    died = died[~np.isnan(rows["dose"])]
    x = x - x.mean(axis=0)
    points: Doubles = np.zeros(x.shape[1])
    inverse: Doubles = np.eye(x.shape[1])
    for _ in range(_COX_STEPS):
        gradient, hessian = np.zeros(len(points)), np.zeros((len(points), len(points)))
        for day in np.unique(days[died]):
            now, at_risk = died & (days == day), days >= day
            weights = np.exp(x[at_risk] @ points)
            weights /= weights.sum()
            mean = weights @ x[at_risk]
            spread = (x[at_risk] - mean).T @ ((x[at_risk] - mean) * weights[:, None])
            gradient += x[now].sum(axis=0) - now.sum() * mean
            hessian += now.sum() * spread
        inverse = np.asarray(np.linalg.inv(hessian), np.float64)
        points = points + inverse @ gradient
    return np.column_stack([points, np.sqrt(np.diag(inverse))]).ravel()


def _kaplan_meier(rows: Table) -> Doubles:
    """Of each arm the share that survives each day, one day after the other, while five are at risk."""
    found: list[float] = []
    for arm in (0, 1):
        days, died = (rows[name][rows["arm"] == arm] for name in ("days", "died"))
        survival = 1.0
        for day in np.arange(_LAST_DAY + 1):
            at_risk = int((days >= day).sum())
            survival *= 1 - float(died[days == day].sum()) / max(1, at_risk)
            if at_risk >= 5:
                found.append(survival)
    return np.array(found)


def _complete(rows: Table, response: Doubles) -> tuple[Doubles, NDArray[np.float64]]:
    x = np.column_stack([rows[name] for name in _TERMS])
    there = ~np.isnan(x).any(axis=1)
    return x[there], response[there]


_POOLED: Mapping[Statistic, Callable[[Table], Doubles]] = {
    "means": _means,
    "gaussian": _glm("gaussian", "weight"),
    "binomial": _glm("binomial", "ill"),
    "poisson": _glm("poisson", "visits"),
    "kaplan-meier": _kaplan_meier,
    "cox": _cox,
}
