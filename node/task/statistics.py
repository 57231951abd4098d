"""The section `[statistics]` of a task: what `murmuration stats` computes of all members' rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from node.task.rules import Rule, boolean, choice, key, lists, read_section, real, text, unique_texts, whole

_MOST = 20  # models, curves and tables
_LONGEST = 200
Family = Literal["binomial", "gaussian", "poisson"]
FAMILIES: tuple[Family, ...] = ("binomial", "gaussian", "poisson")
_column = text(f"the name of a column, at most {_LONGEST} characters", rf".{{1,{_LONGEST}}}")


def _tables(name: str, kind: type) -> Rule:
    """A list of tables, each read as the dataclass `kind`; errors name the key within."""

    def accept(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > _MOST:
            raise ValueError
        return tuple(
            read_section(kind, f"statistics.{name}.{place}", item) for place, item in enumerate(value)
        )

    return Rule(f"a list of at most {_MOST} tables", accept)


@dataclass(frozen=True)
class ModelAsked:
    """A generalised linear model with its canonical link."""

    formula: str = key(text("a formula such as 'died ~ age + sex'", rf".{{1,{5 * _LONGEST}}}"))
    family: Family = key(choice(*FAMILIES))  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class SurvivalAsked:
    """Kaplan-Meier curves by group with their log-rank test, and a Cox model of the columns `cox`.

    `grid`: the step of the times that members count by, in the time's unit.
    """

    time: str = key(_column)
    event: str = key(_column)
    grid: float = key(real(above=0.0))
    by: str | None = key(_column, None)
    cox: tuple[str, ...] = key(unique_texts(0, 100, _LONGEST), ())


@dataclass(frozen=True)
class StatisticsSection:
    """Table one by the groups of `by`, cross tables, models and survival.

    `per_site`: table one has a column for each member, too. `least_rows`: a member with fewer rows takes no
    part. With privacy: `share` is the part of privacy.epsilon and privacy.delta that table one may spend, in
    at most so many `tries`, and `records` the most rows of all members together.
    """

    by: str | None = key(_column, None)
    tables: tuple[tuple[str, ...], ...] = key(lists(_MOST, unique_texts(2, 2, _LONGEST)), ())
    models: tuple[ModelAsked, ...] = key(_tables("models", ModelAsked), ())
    survival: tuple[SurvivalAsked, ...] = key(_tables("survival", SurvivalAsked), ())
    per_site: bool = key(boolean(), False)
    least_rows: int = key(whole(20, 1_000_000), 20)
    share: float = key(real(at_least=0.001, at_most=1.0), 0.1)
    records: int = key(whole(1, 50_000_000), 1_000_000)
    tries: int = key(whole(1, 10), 2)
