"""Claims that are judged in their own way: a decorator says what they state, and about which arms.

    @about("Noise costs accuracy", {"mechanism": "none"}, all_of({"mechanism": "ldp"}))
    def noise_costs(sweep: Sweep, quiet: str, noised: Sequence[str]) -> Verdict: ...

The function gets the sweep and, in order, what each subject found; a selection stands for its first arm. The
claim is not judged if a subject finds nothing, as its arms were not run, or if the function returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios.frame.spec import Claim, Kind, Verdict
from scenarios.study.arms import Where
from scenarios.study.sweep import Sweep

Subject = Callable[[Sweep], Any]
"""What a claim is about in a sweep; empty or None if nothing of it was run."""
Judge = Callable[..., Verdict | None]
"""Of the sweep and what each subject found."""


def about(name: str, *subjects: Where | Subject, kind: Kind = "finding") -> Callable[[Judge], Claim[Sweep]]:
    """Make the decorated judge a claim about these subjects."""
    found = [subject if callable(subject) else first_of(subject) for subject in subjects]

    def made(judge: Judge) -> Claim[Sweep]:
        def judged(sweep: Sweep) -> Verdict | None:
            arms = [subject(sweep) for subject in found]
            return judge(sweep, *arms) if all(arms) else None

        return Claim(name, judged, kind)

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
