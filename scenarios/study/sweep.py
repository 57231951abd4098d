"""A study is a value: the arms, seeds and claims of one sweep. Each study is one file.

    arms x seeds ──▶ cells ──engine──▶ Sweep ──▶ claims, charts, tables, one tidy table of everything

An arm is a cell with seed 0 (scenarios.study.cells) and its factors (scenarios.study.arms); a cell alone is
an arm without factors. scenarios.runs.request defines what the command line may change; scenarios.runs.run
turns a study into a scenario.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from node.system.errors import ConfigError, shown
from scenarios.frame.spec import Chart, Claim, Json, Table
from scenarios.study.arms import Arm, Factors, Line, Where, as_arm, is_number, lines, longest, pairs, selected
from scenarios.study.cells import METRIC, Cell, Fact, Outcome
from scenarios.study.estimates import estimate

if TYPE_CHECKING:
    import pyarrow as pa

WITHIN_ONE = ("accuracy", "balanced-accuracy", "auc")
"""The metrics from 0 to 1."""
FINAL = "figure"
"""The name that selects an outcome's figures instead of a fact or series."""


@dataclass(frozen=True)
class Quick:
    """The short form of a study: fewer seeds, fewer rounds (None: all), only arms that match a pattern."""

    seeds: int
    rounds: int | None
    arms: tuple[str, ...] = ("*",)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A sweep and its claims. Name, summary, arms and seeds are enough.

    source: whose system it replays. stands_in: from parts of the source to their replacements here, listed in
    every report; pairs will do. data_sets: the names of the data sets that every run needs; an arm asks for
    others that it uses. own: makes an arm called "own" from the import path and keyword arguments of a user's
    mechanism, and raises ConfigError; None: the study has no such arm. headline, charts, tables: None stands
    for those of scenarios.study.plots. usual: patterns of the arms of a full run; the others run only if the
    command line names them.
    """

    name: str
    summary: str
    arms: tuple[Arm | Cell, ...]
    seeds: int
    source: str = ""
    stands_in: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    data_sets: tuple[str, ...] = ()
    quick: Quick = Quick(seeds=2, rounds=2)
    own: Callable[[str, Mapping[str, Any]], Cell] | None = None
    claims: tuple[Claim[Sweep], ...] = ()
    headline: Callable[[Sweep], str] | None = None
    charts: Callable[[Sweep], tuple[Chart, ...]] | None = None
    tables: Callable[[Sweep], tuple[Table, ...]] | None = None
    usual: tuple[str, ...] = ("*",)


@dataclass(frozen=True)
class Sweep:
    """The results of a study: for each arm that was run one outcome per seed, in the order of `seeds`.

    arms: as they were run, with what the command line changed. target: the figure that the user asks when
    each arm reaches; None: not asked.
    """

    study: Study
    seeds: tuple[int, ...]
    arms: tuple[Arm | Cell, ...]
    outcomes: Mapping[str, tuple[Outcome, ...]]
    target: float | None = None

    @cached_property
    def factors(self) -> Mapping[str, Factors]:
        """The factors of each arm that was run, by its name."""
        return {arm.arm: as_arm(arm).factors for arm in self.arms if arm.arm in self.outcomes}

    @cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The cell of each arm as it was run, with seed 0, by the arm's name."""
        return {arm.arm: as_arm(arm).cell for arm in self.arms}

    def select(self, where: Where) -> tuple[str, ...]:
        """The arms with these values of factors, in the order of the study."""
        return selected(self.factors, where)

    def lines(self, over: str, where: Where, least: int = 2) -> tuple[Line, ...]:
        """The arms with these values of factors as lines over the factor `over`; see study.arms.lines."""
        return lines(self.factors, over, where, least)

    def line(self, over: str, where: Where) -> Line:
        """The line with most levels of those that `lines` finds; one without levels if there is none."""
        return longest(self.lines(over, where, least=1))

    def levels(self, over: str, where: Where) -> tuple[float, ...]:
        """The numbers that a factor is in the selected arms, ascending, each once."""
        found = {self.factor(arm, over) for arm in self.select(where)}
        return tuple(sorted(level for level in found if not math.isnan(level)))

    def pairs(self, one: Where, other: Where) -> tuple[tuple[str, str], ...]:
        """Arms of `one` beside those of `other` that agree in all other factors; see study.arms.pairs."""
        return pairs(self.factors, one, other)

    def first(self, where: Where) -> str | None:
        """The first arm with these values of factors, in the order of the study; None if there is none."""
        return next(iter(self.select(where)), None)

    def firsts(self, *selections: Where) -> tuple[str, ...]:
        """The first arm of each selection; () if one of them has none."""
        found = [self.first(where) for where in selections]
        return tuple(arm for arm in found if arm) if all(found) else ()

    def factor(self, arm: str, name: str) -> float:
        """A numeric factor of an arm; NaN if it has none of this name."""
        found = self.factors[arm].get(name)
        return float(found) if is_number(found) else math.nan

    def frame(self) -> pa.Table:
        """Everything as one tidy table, a row for each arm, seed and round; see study.frame.

        `sweep.frame().to_pandas()` is the same for pandas, where that is installed.
        """
        from scenarios.study.frame import frame_of  # noqa: PLC0415  its readers and writers are slow to load

        return frame_of(self.factors, self.seeds, self.outcomes)

    def has(self, *arms: str) -> bool:
        """Whether all of these arms were run."""
        return all(arm in self.outcomes for arm in arms)

    def values(self, arm: str, fact: str = FINAL) -> NDArray[np.float64]:
        """(seeds,) figures after the last round, or a numeric fact; NaN if the fact is no number."""
        if fact == FINAL:
            return np.array([outcome.final for outcome in self.outcomes[arm]])
        found = (outcome.facts.get(fact) for outcome in self.outcomes[arm])
        return np.array([float(value) if isinstance(value, int | float) else math.nan for value in found])

    def mean(self, arm: str, fact: str = FINAL) -> float:
        """The mean of `values` over the seeds."""
        return float(self.values(arm, fact).mean())

    def standard_error(self, arm: str, fact: str = FINAL) -> float:
        """The standard error of `mean`; there are at least two seeds."""
        return estimate(self.values(arm, fact)).error

    def margin(self, arm: str, fact: str = FINAL) -> float:
        """Half the width of the 95 % confidence interval of `mean`."""
        return estimate(self.values(arm, fact)).margin

    def curve(self, arm: str, series: str = FINAL) -> tuple[float, ...]:
        """The mean over the seeds, round by round, of the figures or of another series."""
        outcomes = self.outcomes[arm]
        rows = [outcome.figures if series == FINAL else outcome.series[series] for outcome in outcomes]
        return tuple(np.mean(rows, axis=0).tolist())

    def fact(self, arm: str, name: str) -> Fact:
        """A fact of an arm for its first seed; None if there is no such fact."""
        return self.outcomes[arm][0].facts.get(name)

    @cached_property
    def metric(self) -> str:
        """The metric of all arms (node.training.figures.metrics); "" if they differ, or say nothing."""
        from node.training.figures.metric_words import METRIC_NAMES  # noqa: PLC0415  loads torch

        found = {outcome.facts.get(METRIC) for outcomes in self.outcomes.values() for outcome in outcomes}
        (name, *others) = found or {None}
        return name if isinstance(name, str) and name in METRIC_NAMES and not others else ""

    @cached_property
    def figure(self) -> str:
        """The name of the figures in words."""
        from node.training.figures.metric_words import METRIC_NAMES  # noqa: PLC0415  as above

        return f"test {METRIC_NAMES[self.metric]}" if self.metric else FINAL

    @property
    def few_seeds(self) -> str:
        """What there is to say of two seeds; "" if there are more."""
        return (
            ""
            if len(self.seeds) > 2
            else " Two seeds are few: such an interval reaches 13 standard errors to each side."
        )

    def ends(self, arm: str, fact: str = FINAL) -> tuple[float, float]:
        """How far an error bar goes up and down from the mean: within 0 and 1 where the metric does."""
        margin, mean = self.margin(arm, fact), self.mean(arm, fact)
        if fact != FINAL or self.metric not in WITHIN_ONE:
            return margin, margin
        return min(margin, 1 - mean), min(margin, mean)

    def number(self, arm: str, name: str) -> float:
        """A numeric fact of an arm for its first seed; NaN if it is no number."""
        value = self.fact(arm, name)
        return float(value) if isinstance(value, int | float) else math.nan


def arms_json(sweep: Sweep) -> dict[str, Json]:
    """Every arm's figures for result.json."""
    return {
        arm: {
            "factors": dict(sweep.factors.get(arm, {})),
            "figure": sweep.mean(arm),
            "standard_error": sweep.standard_error(arm),
            "seeds": [
                {
                    "seed": seed,
                    "figures": list(outcome.figures),
                    "seconds": outcome.seconds,
                    **outcome.facts,
                    **{name: list(row) for name, row in outcome.series.items()},
                    "clock": list(outcome.clock),
                }
                for seed, outcome in zip(sweep.seeds, outcomes, strict=True)
            ],
        }
        for arm, outcomes in sweep.outcomes.items()
    }


def stored(study: Study, result: Json) -> Sweep:
    """The sweep that a result.json holds, with the factors and in the order that the study has today.

    Raises ConfigError for an arm that the study does not have.
    """
    known = {arm.arm: arm for arm in study.arms}
    for arm in result["arms"]:
        if arm not in known:
            raise ConfigError(f"arm {shown(arm)} of the result is none of {study.name}'s; run it again")
    seeds = tuple(one["seed"] for one in next(iter(result["arms"].values()))["seeds"])
    there = {arm: result["arms"][arm] for arm in known if arm in result["arms"]}
    outcomes = {arm: tuple(map(_outcome, figures["seeds"])) for arm, figures in there.items()}
    arms = (_as_run(known[arm], figures.get("factors", {})) for arm, figures in there.items())
    return Sweep(study, seeds, tuple(arms), outcomes)


def _as_run(arm: Arm | Cell, run: Factors) -> Arm | Cell:
    """The arm with the numbers that its factors had in the run: the command line may have changed them.

    All else that tells it from other arms is as the study has it today.
    """
    if not isinstance(arm, Arm):
        return arm
    given = {name: run[name] for name, level in arm.factors.items() if is_number(level) and name in run}
    return Arm(arm.cell, {**arm.factors, **given})


def _outcome(figures: Mapping[str, Any]) -> Outcome:
    own = ("seed", "figures", "seconds", "clock")
    others = {name: value for name, value in figures.items() if name not in own}
    return Outcome(
        figures=tuple(figures["figures"]),
        facts={name: value for name, value in others.items() if not isinstance(value, list)},
        seconds=figures["seconds"],
        series={name: tuple(value) for name, value in others.items() if isinstance(value, list)},
        clock=tuple(figures.get("clock", ())),
    )


def collect(
    study: Study,
    arms: Sequence[Arm | Cell],
    seeds: Sequence[int],
    get: Callable[[Cell], Outcome],
    target: float | None = None,
) -> Sweep:
    """Collect the outcomes of all cells, which `get` returns."""
    outcomes = {arm.arm: tuple(get(as_arm(arm).cell.seeded(seed)) for seed in seeds) for arm in arms}
    return Sweep(study, tuple(seeds), tuple(arms), outcomes, target)


def substitutions(study: Study) -> Table:
    """A table of replaced parts of the source, for the report."""
    return Table("What stands in for what", ("in the source", "here"), tuple(dict(study.stands_in).items()))
