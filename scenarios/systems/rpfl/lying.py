"""Arms and claims about lying peers in a swarm: one sum, the median of group sums, the loss gate, and both.

Fifteen peers learn the digits, in one sum or in five groups of three. A liar sends its negated update, scaled
up: in every round, in one round, or from one round on. A study includes these arms and claims. Their factors
are the `setting`, the `defence` and the `lie`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mechanisms.servers.group_median import lies_withstood
from node.task.load import load_task
from scenarios.frame.spec import Verdict
from scenarios.study.about import about, all_of, as_claims, together
from scenarios.study.arms import Arm, Where
from scenarios.study.bounds import above, ahead, below
from scenarios.study.comparison import difference
from scenarios.study.estimates import estimate
from scenarios.study.makers import Numbers, figures_of
from scenarios.study.sweep import Sweep
from scenarios.swarms.cells import changed_task
from scenarios.swarms.lying import HONEST, OWN, ROLLED_BACK, Lie, LyingSwarmCell

PEERS, GROUPS = 15, 5
TOLERANCE = 0.3
"""The gate's tolerance in nats: without liars a peer's own loss rises by 0.1 at most (seeds 0 to 2)."""
WITHSTOOD = lies_withstood(GROUPS)
TOO_MANY = PEERS // 3
ONCE, LATE = 8, 11
"""The round of a single lie, and the first round of lies that do not end."""

NOBODY, SOME, MANY, ONCE_ONLY, FROM_LATE = "honest", f"{WITHSTOOD}liars", f"{TOO_MANY}liars", "once", "late"
LIES: Mapping[str, tuple[Lie, str]] = {
    NOBODY: (HONEST, "nobody lies"),
    SOME: (Lie(WITHSTOOD / PEERS), f"{WITHSTOOD} lie"),
    MANY: (Lie(TOO_MANY / PEERS), f"{TOO_MANY} lie"),
    ONCE_ONLY: (Lie(WITHSTOOD / PEERS, factor=100.0, first=ONCE, last=ONCE), "a single lie"),
    FROM_LATE: (Lie(WITHSTOOD / PEERS, first=LATE), f"from round {LATE} on"),
}
"""From a level of the factor `lie` to what liars do, and its words."""

DEFENCES: Mapping[str, tuple[int, bool, str]] = {
    "sum": (1, False, "one sum"),
    "groups": (GROUPS, False, "median of group sums"),
    "gate": (1, True, "loss gates"),
    "both": (GROUPS, True, "groups and gates"),
}
"""From a level of the factor `defence` to the number of groups, whether peers have a gate, and its words."""
SWARM: Where = {"setting": "swarm"}

_TASK = changed_task(load_task("digits", []), {"train": {"grad_clip": 5.0}})
"""The task, with clipped gradients, so that peers that train from a spoilt base do not diverge."""


def _arm(defence: str, lie: str) -> Arm:
    (groups, gated, _), (told, _) = DEFENCES[defence], LIES[lie]
    gate = {"aggregation": {"loss_gate": TOLERANCE}} if gated else {}
    cell = LyingSwarmCell(f"swarm-{defence}-{lie}", changed_task(_TASK, gate), PEERS, told, groups)
    return Arm(cell, {"setting": "swarm", "defence": defence, "lie": lie})


ARMS = tuple(_arm(defence, lie) for lie in LIES for defence in DEFENCES)


# -- claims ------------------------------------------------------------------------------------------------

LITTLE = 0.02
"""The accuracy that a defence may cost without liars."""
KEPT = 0.8
"""The accuracy from which on an owner's model counts as kept."""
HELD = 0.08
"""The accuracy that liars may cost with a defence that withstands them."""
AHEAD = 0.1
"""The accuracy by which a swarm with gates is ahead after a single lie."""
LOST = 0.5
"""A swarm with an accuracy below this counts as lost."""
_AFTER = slice(ONCE, ONCE + 3)
"""The slice of a curve with the three rounds after the single lie."""


def _of(defence: str | tuple[str, ...], lie: str) -> Where:
    return {**SWARM, "defence": defence, "lie": lie}


@about(all_of(_of(("gate", "both"), NOBODY)))
def nothing_is_refused(sweep: Sweep, arms: Sequence[str]) -> Verdict:
    """Where nobody lies no gate refuses a base."""
    told = figures_of(sweep, arms, ROLLED_BACK)
    return Verdict(not any(told.values()), told)


@about(_of("sum", ONCE_ONLY), _of("gate", ONCE_ONLY), _of("gate", NOBODY))
def gates_undo_a_single_lie(sweep: Sweep, alone: str, gated: str, honest: str) -> Verdict | None:
    """In the three rounds after a single lie a swarm with gates is far ahead; it ends as if nobody lied."""
    if len(sweep.curve(gated)) < _AFTER.stop:
        return None
    numbers: Numbers = {
        f"{arm}, mean of the three rounds after the lie": sum(sweep.curve(arm)[_AFTER]) / 3
        for arm in (alone, gated)
    }
    lead = estimate(_after(sweep, gated) - _after(sweep, alone))
    numbers |= {"ahead, margin": lead.margin, gated: sweep.mean(gated), honest: sweep.mean(honest)}
    numbers[f"{gated}, {ROLLED_BACK}"] = sweep.mean(gated, ROLLED_BACK)
    as_before = difference(sweep, honest, gated).low >= -LITTLE
    return Verdict(lead.low >= AHEAD and as_before, numbers)


def _after(sweep: Sweep, name: str) -> NDArray[np.float64]:
    """(seeds,) mean accuracies of the three rounds after the single lie."""
    return np.array([np.mean(outcome.figures[_AFTER]) for outcome in sweep.outcomes[name]])


CLAIMS = as_claims(
    {
        "Where nobody lies, median of group sums and loss gate cost at most 2 points.": together(
            ahead(-LITTLE, _of(("groups", "gate", "both"), NOBODY), _of("sum", NOBODY)),
            nothing_is_refused,
        ),
        "As many liars as the breakdown point take at most 8 points from groups, and one sum is "
        "lost.": together(
            ahead(-HELD, _of("groups", SOME), _of("groups", NOBODY)), below(LOST, _of("sum", SOME))
        ),
        "With a third of the peers lying the median of group sums is lost, too.": below(
            LOST, _of(("groups", "both"), MANY)
        ),
        "Loss gates lead a swarm back from a single lie.": gates_undo_a_single_lie,
        "Under a lie that does not end a gate keeps its owner's model, and not the common one.": together(
            below(LOST, _of("gate", FROM_LATE)),
            below(LOST, _of("sum", FROM_LATE), OWN),
            above(KEPT, _of("gate", FROM_LATE), OWN),
        ),
    }
)
