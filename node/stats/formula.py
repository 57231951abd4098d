"""Formulas as R writes them: `died ~ age + sex + age:sex`, `died ~ age * sex`.

`a:b` is a product, `a * b` is `a + b + a:b`. The intercept is always there. A name with blanks or signs
stands in backquotes.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import combinations

from node.system.errors import ConfigError, shown

Term = frozenset[str]
_TOKEN = re.compile(r"\s*(?:`([^`]+)`|([~+:*])|([^\s`~+:*]+))")


@dataclass(frozen=True)
class Formula:
    """The response, and the terms, each the names of the columns that it multiplies; lower orders first."""

    response: str
    terms: tuple[Term, ...]


def parse(text: str, columns: Container[str]) -> Formula:
    """Returns the formula. Raises ConfigError if it is not one, or names what is none of `columns`."""
    response, rest = _read_name(text, 0, columns)
    sign, rest = _read_sign(text, rest)
    if sign != "~":
        raise _error(
            text, f"has {shown(sign)} after {shown(response)}; a formula is `response ~ column + column`"
        )
    terms: list[Term] = []
    products: list[list[Term]] = [[]]  # of each summand its factors of *, each a set of factors of :
    while sign:
        name, rest = _read_name(text, rest, columns)
        if name == response:
            raise _error(text, f"has its response {shown(name)} on the right, too; leave it out there")
        match sign:
            case ":":
                products[-1][-1] |= {name}
            case "*":
                products[-1].append(frozenset({name}))
            case "+" | "~":
                products.append([frozenset({name})])
        sign, rest = _read_sign(text, rest)
        if sign == "~":
            raise _error(text, "has a second ~; leave it out")
    for factors in products:
        for order in range(1, len(factors) + 1):
            terms += [frozenset().union(*chosen) for chosen in combinations(factors, order)]
    return Formula(response, tuple(sorted(dict.fromkeys(terms), key=len)))


def _read_name(text: str, start: int, columns: Container[str]) -> tuple[str, int]:
    found = _TOKEN.match(text, start)
    name = "" if found is None else found[1] or found[3] or ""
    if found is None or not name:
        raise _error(text, f"lacks a column at character {start + 1}; write `response ~ column + column`")
    if name not in columns:
        raise _error(text, f"names {shown(name)}, which is no column of the task; take one of data.schema")
    return name, found.end()


def _read_sign(text: str, start: int) -> tuple[str, int]:
    if not text[start:].strip():
        return "", len(text)
    found = _TOKEN.match(text, start)
    if found is None or not found[2]:
        raise _error(text, f"lacks a sign before {shown(text[start:].strip())}; allowed: + : *")
    return found[2], found.end()


def _error(text: str, what: str) -> ConfigError:
    return ConfigError(f"formula {shown(text)} {what}")
