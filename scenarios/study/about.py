"""A study's claims as one table, from what is stated to what decides it; and judges of a study's own.

    CLAIMS = as_claims({
        "More privacy costs more": rises("epsilon", {"mechanism": "ldp"}),
        "Any noise costs accuracy": noise_costs,
    })

    @about({"mechanism": "none"}, all_of({"mechanism": "ldp"}))
    def noise_costs(sweep: Sweep, quiet: str, noised: Sequence[str]) -> Verdict: ...

A judge gets the sweep and, in order, what each subject found; a selection stands for its first arm. The claim
is not judged if a subject finds nothing, as its arms were not run, or if the judge returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from scenarios.frame.spec import Claim, Verdict
from scenarios.study.arms import Where
from scenarios.study.makers import every
from scenarios.study.sweep import Sweep

Subject = Callable[[Sweep], Any]
"""What a claim is about in a sweep; empty or None if nothing of it was run."""
Judge = Callable[..., Verdict | None]
"""Of the sweep and what each subject found."""


def as_claims(table: Mapping[str, Claim[Sweep]]) -> tuple[Claim[Sweep], ...]:
    """The claims of a table, each with the name that stands before it."""
    return tuple(replace(claim, name=name) for name, claim in table.items())


def together(*claims: Claim[Sweep]) -> Claim[Sweep]:
    """All of these claims as one, which a table names; see makers.every."""
    return every("", *claims)


def about(*subjects: Where | Subject) -> Callable[[Judge], Claim[Sweep]]:
    """Make the decorated judge a claim about these subjects, which a table names."""
    finders = [subject if callable(subject) else first_of(subject) for subject in subjects]

    def made(judge: Judge) -> Claim[Sweep]:
        def judged(sweep: Sweep) -> Verdict | None:
            found = [subject(sweep) for subject in finders]
            return judge(sweep, *found) if all(found) else None

        return Claim("", judged)

    return made


def first_of(where: Where) -> Subject:
    """The first arm of a selection, or None."""
    return lambda sweep: sweep.first(where)


def all_of(where: Where) -> Subject:
    """The arms of a selection, in the order of the study."""
    return lambda sweep: sweep.select(where)


def pairs_of(one: Where, other: Where) -> Subject:
    """Arms of `one` beside those of `other` that agree in all other factors; see study.arms.pairs."""
    return lambda sweep: sweep.pairs(one, other)


def along(over: str, where: Where, least: int = 1) -> Subject:
    """The arms of the longest line over a numeric factor, by ascending level; {} with fewer than `least`."""

    def found(sweep: Sweep) -> dict[str, float]:
        points = sweep.line(over, where).points
        return points if len(points) >= least else {}

    return found
