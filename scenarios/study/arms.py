"""An arm of a study: a cell with seed 0, and the factors that tell it from the other arms.

A factor is a parameter that a study varies, with the same name in all of its arms: `Arm(cell, {"mechanism":
"ldp", "epsilon": 8})`. Claims, charts and tables select arms by factors and never take a name apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from scenarios.study.cells import Cell

Level = str | float
"""A value of a factor: text, a number, or a truth value."""
Factors = Mapping[str, Level]
Where = Mapping[str, Level | Collection[Level]]
"""Which arms are meant: for some factors the one value, or the values, that an arm must have."""

OWN: Mapping[str, Level] = {"mechanism": "own"}
"""The factors of the arm with a user's own mechanism, which the command line adds."""
ROUNDS, PARTIES = "rounds", ("peers", "clients")
"""Factors that `--rounds` and `--peers` change."""


@dataclass(frozen=True)
class Arm:
    """A cell with seed 0 and its factors.

    If the command line changes what a factor stands for, the factor changes too: `rounds` with `--rounds`,
    `peers` and `clients` with `--peers`, and the key of a task, such as `learning_rate` or
    `train.learning_rate`, with `--set`.
    """

    cell: Cell
    factors: Factors = field(default_factory=dict)

    @property
    def arm(self) -> str:
        """The name of the arm."""
        return self.cell.arm

    def lasting(self, rounds: int) -> Arm:
        """The same arm over `rounds` rounds. Raises ConfigError."""
        return Arm(self.cell.lasting(rounds), _now(self.factors, {ROUNDS: rounds}))

    def among(self, peers: int) -> Arm:
        """The same arm with `peers` clients or peers. Raises ConfigError."""
        return Arm(self.cell.among(peers), _now(self.factors, dict.fromkeys(PARTIES, peers)))

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Arm:
        """The same arm with new values for keys of a task, by section. Raises ConfigError."""
        given = {
            name: value
            for section, values in table.items()
            for key, value in values.items()
            for name in (key, f"{section}.{key}")
            if isinstance(value, str | int | float)
        }
        return Arm(self.cell.changed(table), _now(self.factors, given))


def _now(factors: Factors, given: Factors) -> Factors:
    """The factors, those among `given` with their new values."""
    return {name: given.get(name, level) for name, level in factors.items()}


def as_arm(one: Arm | Cell) -> Arm:
    """The arm of a cell that has no factors; an arm itself."""
    return one if isinstance(one, Arm) else Arm(one)


# -- selections --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """Arms that differ in one factor only.

    levels: the values of that factor, ascending if they are numbers, else in the order of the study.
    arms: the arm of each. others: the factors that all arms of the line have in common.
    """

    levels: tuple[Level, ...]
    arms: tuple[str, ...]
    others: Factors

    @property
    def points(self) -> dict[str, float]:
        """The arms of a line over a numeric factor, each with its level, ascending."""
        return {arm: float(level) for arm, level in zip(self.arms, self.levels, strict=True)}

    @property
    def words(self) -> str:
        """The common factors in words; "" without any."""
        return in_words(self.others)


def in_words(factors: Factors) -> str:
    """Factors as text, such as `mechanism ldp, epsilon 8`."""
    return ", ".join(f"{name} {level_text(level)}" for name, level in factors.items())


def level_text(level: Level) -> str:
    """A value of a factor as text: at most six significant digits."""
    if isinstance(level, bool):
        return str(level).lower()
    return level if isinstance(level, str) else f"{level:g}"


def capital(words: str) -> str:
    """Words as they stand at the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def is_number(level: object) -> TypeGuard[float]:
    """Whether the value of a factor is a number."""
    return isinstance(level, int | float) and not isinstance(level, bool)


def matches(factors: Factors, where: Where) -> bool:
    """Whether an arm with these factors is meant by `where`."""
    return all(
        name in factors
        and (factors[name] == wanted if isinstance(wanted, str | int | float) else factors[name] in wanted)
        for name, wanted in where.items()
    )


def selected(factors: Mapping[str, Factors], where: Where) -> tuple[str, ...]:
    """The arms that `where` means, in the order of the study; `factors`: of each arm, by its name."""
    return tuple(arm for arm, own in factors.items() if matches(own, where))


def lines(factors: Mapping[str, Factors], over: str, where: Where, least: int = 2) -> tuple[Line, ...]:
    """The arms that `where` means, as lines over the factor `over`, each with `least` levels or more.

    Arms without this factor are left out. Of arms with equal factors, which the command line can make, the
    first stands for all.
    """
    grouped: dict[tuple[tuple[str, Level], ...], dict[Level, str]] = {}
    for arm in selected(factors, where):
        if over in factors[arm]:
            others = tuple(sorted((name, level) for name, level in factors[arm].items() if name != over))
            grouped.setdefault(others, {}).setdefault(factors[arm][over], arm)
    return tuple(
        _line(tuple(points.items()), _in_order(dict(others), factors[next(iter(points.values()))]))
        for others, points in grouped.items()
        if len(points) >= least
    )


def _in_order(others: Factors, own: Factors) -> Factors:
    """The factors `others` in the order in which an arm has them."""
    return {name: others[name] for name in own if name in others}


def longest(found: Sequence[Line]) -> Line:
    """The first of the lines with most levels; one without levels if there is none."""
    return max(found, key=lambda line: len(line.levels), default=Line((), (), {}))


def _line(points: Sequence[tuple[Level, str]], others: Factors) -> Line:
    if all(is_number(level) for level, _ in points):
        points = sorted(points, key=lambda point: float(point[0]))
    return Line(tuple(level for level, _ in points), tuple(arm for _, arm in points), others)


def pairs(factors: Mapping[str, Factors], one: Where, other: Where) -> tuple[tuple[str, str], ...]:
    """Every arm of `one` beside the arms of `other` that agree with it in all factors but those named.

    A factor for which both name the same values is no exception: with `epsilon` from 1 to 8 in both, 8 stands
    beside 8. A factor that only one of the two arms has does not separate them: a reference without noise has
    no epsilon, and stands beside every epsilon.
    """
    named = {name for name in {*one, *other} if one.get(name) != other.get(name)}
    return tuple(
        (first, second)
        for first in selected(factors, one)
        for second in selected(factors, other)
        if first != second and _agree(factors[first], factors[second], named)
    )


def _agree(one: Factors, other: Factors, named: Collection[str]) -> bool:
    return all(one[name] == other[name] for name in one if name in other and name not in named)
