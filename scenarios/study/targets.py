"""What each arm of a sweep needs to reach a target: rounds, seconds, bytes and epsilon.

An arm reaches the target in the first round whose figure, as a mean over the seeds, is at least the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

from scenarios.frame.spec import Json
from scenarios.study.cells import Outcome
from scenarios.study.costs import epsilon_after, sent_until
from scenarios.study.sweep import Sweep


@dataclass(frozen=True)
class Reached:
    """What an arm had used at the end of the round that reached the target.

    seconds and bytes are means over the seeds; bytes of all parties together. epsilon is the largest of the
    seeds. None: not known, or an epsilon that is infinite.
    """

    round: int
    seconds: float | None
    bytes: float | None
    epsilon: float | None


def reached(sweep: Sweep, arm: str, target: float) -> Reached | None:
    """When an arm reaches `target`; None if it does not."""
    number = next((place for place, mean in enumerate(sweep.curve(arm), start=1) if mean >= target), None)
    if number is None:
        return None
    seconds = _each(sweep, arm, lambda outcome: outcome.clock[number - 1] if outcome.clock else None)
    sent = _each(sweep, arm, lambda outcome: sent_until(outcome, number))
    epsilon = _each(sweep, arm, lambda outcome: epsilon_after(outcome, number))
    return Reached(
        round=number,
        seconds=None if seconds is None else math.fsum(seconds) / len(seconds),
        bytes=None if sent is None else math.fsum(sent) / len(sent),
        epsilon=None if epsilon is None else max(epsilon),
    )


def _each(sweep: Sweep, arm: str, value: Callable[[Outcome], float | None]) -> list[float] | None:
    """A value of every seed; None if a seed has none."""
    found = [value(outcome) for outcome in sweep.outcomes[arm]]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def targets_json(sweep: Sweep) -> dict[str, Json]:
    """For each arm `target` and `reached` (null: not reached) for result.json; {} if there is no target."""
    if sweep.target is None:
        return {}
    found = {arm: reached(sweep, arm, sweep.target) for arm in sweep.outcomes}
    return {
        arm: {"target": sweep.target, "reached": None if one is None else asdict(one)}
        for arm, one in found.items()
    }
