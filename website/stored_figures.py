"""Figures of stored results: an expression such as `{exact-20 - linear-20|±}` becomes `6.7 ± 1.3`.

A result is a scenario's `result.json`, whole or packed, as docs/results keeps it. Expressions read it when a
page is written, so a page never states a figure that the result does not have.

    exact-20                      the figure of an arm: the mean over the seeds of its last round
    exact-20/epsilon              another figure of an arm, by the name it has in the result
    exact-20@1                    the figure of the seed numbered 1
    exact-20@least, exact-20@most the smallest and the largest figure of a seed, also with /epsilon
    exact-20[1..3]                the mean over the rounds 1 to 3, counted from 1
    max(exact-*), min(...)        the largest and the smallest mean of the arms that match, also with /epsilon
    claim(is worse)/at epsilon    a number of the one claim whose name has these words
    arms(), seeds()               how many there are
    findings(), identities()      how many claims are of this kind
    findings_hold(), identities_hold()      how many of them hold
    nbafl::no-noise               the same, of the result nbafl.json
    a - b, a / b, a * 100         arithmetic seed by seed, from left to right; operators stand between spaces
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import add, ge, gt, le, lt, mul, sub, truediv
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from node.system.errors import ConfigError
from scenarios.frame.stored import read_result as stored_result

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_OPERATORS: Mapping[str, Callable[[float, float], float]] = {"+": add, "-": sub, "/": truediv, "*": mul}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {"<": lt, ">": gt, "<=": le, ">=": ge}
_EXTREMES: Mapping[str, Callable[[Iterable[float]], float]] = {"least": min, "most": max}
_COUNTS = ("arms", "seeds", "findings", "findings_hold", "identities", "identities_hold")
_KINDS = {"findings": "finding", "identities": "identity"}
_ARM = re.compile(
    r"(?P<arm>[^/@\[\]]+)(?:\[(?P<first>\d+)\.\.(?P<last>\d+)\])?(?:@(?P<seed>\d+|least|most))?(?:/(?P<fact>.+))?"
)
_FORMAT = re.compile(r"(?P<error>±?)(?P<spec>%\d?|,?\.\d[feg])?")


class StoredFigureError(ValueError):
    """An expression that the stored results cannot answer; the text says which, and what they have."""


@dataclass(frozen=True)
class Claim:
    """A claim of a result: its place (counted from 1), name, kind, whether it holds, and its numbers.

    kind: a `finding` could have come out otherwise; an `identity` follows from formulas.
    """

    place: int
    name: str
    kind: str
    holds: bool
    numbers: Mapping[str, float | str | None]


@dataclass(frozen=True)
class Quantity:
    """One value for each seed; a constant has the key None alone."""

    values: Mapping[int | None, float]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return fmean(self.values.values())

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, of paired differences for a difference; nan for one value."""
        values = list(self.values.values())
        return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Result:
    """A scenario's stored result: its claims, and the seeds of every arm as JSON has them.

    method: how claims are judged, in words; empty if the result does not say it. arms: the arm of one run,
    such as of `swarm`, stands here as a list of one seed.
    """

    name: str
    method: str
    claims: Sequence[Claim]
    arms: Mapping[str, Sequence[Mapping[str, Any]]]

    def claim(self, words: str) -> Claim:
        """The one claim whose name has these words. Raises StoredFigureError if none or several have."""
        found = [claim for claim in self.claims if words in claim.name]
        if len(found) != 1:
            names = "; ".join(claim.name for claim in found or self.claims)
            raise StoredFigureError(
                f"{len(found)} claims of {self.name}.json have the words {words!r}; one must: {names}"
            )
        return found[0]


def read_result(path: Path) -> Result:
    """Read a scenario's result. Raises StoredFigureError if there is none at `path`, or not all of it."""
    if not path.is_file():
        raise StoredFigureError(f"{path.name} is not in {path.parent}; name a result that is stored there")
    try:
        stored = stored_result(path)
    except ConfigError as error:
        raise StoredFigureError(str(error)) from None
    claims = [
        Claim(
            place=place,
            name=one["name"],
            kind=one.get("kind", "finding"),
            holds=one["holds"],
            numbers=one["numbers"],
        )
        for place, one in enumerate(stored["claims"], 1)
    ]
    arms = {
        name: arm.get("seeds") or [{"seed": stored["seed"], **arm}] for name, arm in stored["arms"].items()
    }
    return Result(name=path.stem, method=stored.get("method", ""), claims=claims, arms=arms)


@dataclass(frozen=True)
class Figures:
    """Answers expressions: `results` reads a result by its name, `own` is the one without `name::`.

    usual: the format of a placeholder that names none.
    """

    results: Callable[[str], Result]
    own: str
    usual: str

    def filled(self, text: str) -> str:
        """`text` with every placeholder `{expression}` or `{expression|format}` replaced by its value.

        A format is `%` or `%2` for per cent with one or two digits, or one of Python's (`.3f`, `,.0f`,
        `.2e`); `±` before it, or alone, adds the standard error.
        """
        return PLACEHOLDER.sub(lambda match: self._told(match[1]), text)

    def _told(self, placeholder: str) -> str:
        expression, bar, form = placeholder.partition("|")
        match = _FORMAT.fullmatch(form)
        if not match or (bar and not form):
            raise StoredFigureError(
                f"{{{placeholder}}}: {form!r} is no format; allowed are %, .3f, ,.0f, .2e, and ± before them"
            )
        found, spec = self.value(expression), match["spec"] or self.usual
        mean = written(found.mean, spec)
        return f"{mean} ± {written(found.standard_error, spec)}" if match["error"] else mean

    def holds(self, comparison: str) -> bool:
        """Whether a comparison of two expressions is true of the means, such as `exact-1 < 0.2`.

        Raises StoredFigureError if it is no comparison.
        """
        match re.split(r" (<=|>=|<|>) ", comparison):
            case [left, sign, right]:
                return _COMPARISONS[sign](self.value(left).mean, self.value(right).mean)
        raise StoredFigureError(f"{comparison!r} is no comparison; write one such as: exact-1 < 0.2")

    def value(self, expression: str) -> Quantity:
        """The value of an expression. Raises StoredFigureError if the result does not have it."""
        first, *rest = re.split(r" ([-+/*]) ", expression.strip())
        value = self._term(first)
        for sign, term in zip(rest[::2], rest[1::2], strict=True):
            value = _combined(_OPERATORS[sign], value, self._term(term))
        return value

    def _term(self, term: str) -> Quantity:
        name, found, inner = term.rpartition("::")
        result = self.results(name if found else self.own)
        if re.fullmatch(r"\d+(\.\d+)?", inner):
            return Quantity({None: float(inner)})
        if match := re.fullmatch(r"(\w+)\(\)", inner):
            return Quantity({None: float(_count(result, match[1]))})
        if match := re.fullmatch(r"claim\((.*)\)/(.+)", inner):
            return Quantity({None: _number(result.claim(match[1]), match[2])})
        if match := re.fullmatch(r"(max|min)\(([^/]+?)(/.+)?\)", inner):
            chosen = [arm for arm in result.arms if fnmatchcase(arm, match[2])]
            means = [_of_arm(result, arm + (match[3] or "")).mean for arm in chosen]
            if not means:
                raise StoredFigureError(f"no arm of {result.name}.json matches {match[2]!r}")
            return Quantity({None: max(means) if match[1] == "max" else min(means)})
        return _of_arm(result, inner)


def _combined(operation: Callable[[float, float], float], left: Quantity, right: Quantity) -> Quantity:
    """Seed by seed where both have the same seeds; a constant goes with every seed."""
    one, other = left.values, right.values
    if None in one:
        return Quantity({seed: operation(one[None], value) for seed, value in other.items()})
    if None in other:
        return Quantity({seed: operation(value, other[None]) for seed, value in one.items()})
    if one.keys() != other.keys():
        raise StoredFigureError(
            f"seeds {sorted(map(str, one))} and {sorted(map(str, other))} differ; compare arms with the same"
        )
    return Quantity({seed: operation(value, other[seed]) for seed, value in one.items()})


def _of_arm(result: Result, text: str) -> Quantity:
    match = _ARM.fullmatch(text)
    seeds = result.arms.get(match["arm"]) if match else None
    if match is None or seeds is None:
        raise StoredFigureError(f"{result.name}.json has no arm {text!r}")
    values: dict[int | None, float] = {one["seed"]: _of_seed(result, match, one) for one in seeds}
    if match["seed"] is None:
        return Quantity(values)
    if match["seed"] in _EXTREMES:
        return Quantity({None: _EXTREMES[match["seed"]](values.values())})
    if int(match["seed"]) not in values:
        raise StoredFigureError(f"{result.name}.json has no seed {match['seed']} of {match['arm']!r}")
    return Quantity({None: values[int(match["seed"])]})


def _of_seed(result: Result, match: re.Match[str], seed: Mapping[str, Any]) -> float:
    if match["fact"] is not None:
        value = seed.get(match["fact"])
        if not isinstance(value, int | float):
            told = ", ".join(name for name, one in seed.items() if isinstance(one, int | float))
            raise StoredFigureError(
                f"arm {match['arm']!r} of {result.name}.json has no number {match['fact']!r}; it has {told}"
            )
        return float(value)
    if "figures" not in seed:
        raise StoredFigureError(f"arm {match['arm']!r} of {result.name}.json has no figures by round")
    if match["first"] is None:
        return float(seed["figures"][-1])
    rounds = seed["figures"][int(match["first"]) - 1 : int(match["last"])]
    if len(rounds) != int(match["last"]) - int(match["first"]) + 1:
        raise StoredFigureError(f"arm {match['arm']!r} of {result.name}.json lacks rounds of {match[0]!r}")
    return fmean(map(float, rounds))


def _count(result: Result, what: str) -> int:
    if what not in _COUNTS:
        allowed = ", ".join(f"{one}()" for one in _COUNTS)
        raise StoredFigureError(f"{what}() is not known; allowed are {allowed}")
    if what == "arms":
        return len(result.arms)
    if what == "seeds":
        return max(len(seeds) for seeds in result.arms.values())
    kind = _KINDS[what.removesuffix("_hold")]
    chosen = [claim for claim in result.claims if claim.kind == kind]
    return sum(claim.holds for claim in chosen) if what.endswith("_hold") else len(chosen)


def _number(claim: Claim, name: str) -> float:
    value = claim.numbers.get(name)
    if not isinstance(value, int | float):
        raise StoredFigureError(
            f"claim {claim.name!r} has no number {name!r}; it has {', '.join(claim.numbers)}"
        )
    return float(value)


def written(value: float, spec: str) -> str:
    """A number in a format of `Figures.filled`.

    >>> written(0.08523, "%"), written(0.6724, ".3f"), written(342915.2, ",.0f"), written(1.25e13, ".2e")
    ('8.5', '0.672', '342,915', '1.25e13')
    """
    text = f"{100 * value:.{spec[1:] or 1}f}" if spec.startswith("%") else format(value, spec)
    return short_exponent(text[1:] if re.fullmatch(r"-0(\.0*)?", text) else text)


def short_exponent(text: str) -> str:
    """A number's text without a plus or leading zeros in its exponent.

    >>> short_exponent("4.2e+05"), short_exponent("1e-05"), short_exponent("17")
    ('4.2e5', '1e-5', '17')
    """
    return re.sub(r"e([+-])0*(\d+)$", lambda match: f"e{match[1].strip('+')}{match[2]}", text)
