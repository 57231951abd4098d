"""Arms and claims about lying peers in a swarm: one sum, the median of group sums, the loss gate, and both.

Fifteen peers learn the digits, in one sum or in five groups of three. A liar sends its negated update, scaled
up: in every round, in one round, or from one round on. A study includes these arms and claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from mechanisms.servers.group_median import lies_withstood
from node.task.load import load_task
from scenarios.frame.spec import Claim, Verdict
from scenarios.study.comparison import difference, level
from scenarios.study.estimates import estimate
from scenarios.study.sweep import Sweep
from scenarios.swarms.cells import SwarmCell, changed_task
from scenarios.swarms.lying import HONEST, MEMBERS, OWN, ROLLED_BACK, Lie, LyingSwarmCell

PEERS, GROUPS = 15, 5
TOLERANCE = 0.3
"""The gate's tolerance in nats: without liars a peer's own loss rises by 0.1 at most (seeds 0 to 2)."""
WITHSTOOD = lies_withstood(GROUPS)
TOO_MANY = PEERS // 3
ONCE, LATE = 8, 11
"""The round of a single lie, and the first round of lies that do not end."""

NOBODY, SOME, MANY, ONCE_ONLY, FROM_LATE = "honest", f"{WITHSTOOD}liars", f"{TOO_MANY}liars", "once", "late"
LIES: Mapping[str, Lie] = {
    NOBODY: HONEST,
    SOME: Lie(WITHSTOOD / PEERS),
    MANY: Lie(TOO_MANY / PEERS),
    ONCE_ONLY: Lie(WITHSTOOD / PEERS, factor=100.0, first=ONCE, last=ONCE),
    FROM_LATE: Lie(WITHSTOOD / PEERS, first=LATE),
}

SUM, MEDIAN, GATE, BOTH = "sum", "groups", "gate", "both"
DEFENCES: Mapping[str, tuple[int, bool]] = {
    SUM: (1, False),
    MEDIAN: (GROUPS, False),
    GATE: (1, True),
    BOTH: (GROUPS, True),
}
"""From a defence to the number of groups, and whether peers have a gate."""

_TASK = changed_task(load_task("digits", []), {"train": {"grad_clip": 5.0}})
"""The task, with clipped gradients, so that peers that train from a spoilt base do not diverge."""


def arm(defence: str, lie: str) -> str:
    """The name of the arm with a key of DEFENCES and one of LIES."""
    return f"swarm-{defence}-{lie}"


def cells() -> Iterator[LyingSwarmCell]:
    """Yield a cell for every defence with every lie."""
    for lie_name, lie in LIES.items():
        for name, (groups, gated) in DEFENCES.items():
            gate = {"aggregation": {"loss_gate": TOLERANCE}} if gated else {}
            swarm = SwarmCell(arm(name, lie_name), changed_task(_TASK, gate), PEERS)
            yield LyingSwarmCell(swarm, lie, groups)


ARMS: tuple[LyingSwarmCell, ...] = tuple(cells())


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


def defences_cost_little(sweep: Sweep) -> Verdict | None:
    """Without liars each defence is nearly as accurate as one sum, and no gate refuses a base."""
    arms = {name: arm(name, NOBODY) for name in DEFENCES}
    if not sweep.has(*arms.values()):
        return None
    accuracy = {name: sweep.mean(arms[name]) for name in DEFENCES}
    refused = {name: sweep.mean(arms[name], ROLLED_BACK) for name in (GATE, BOTH)}
    least = min(difference(sweep, arms[SUM], one).low for one in arms.values())
    holds = least >= -LITTLE and not any(refused.values())
    told = {f"rolled-back rounds, {name}": value for name, value in refused.items()}
    return Verdict(holds, {f"accuracy, {name}": value for name, value in accuracy.items()} | told)


def groups_withstand_few(sweep: Sweep) -> Verdict | None:
    """Up to the breakdown point the median of group sums keeps its accuracy, but one sum does not."""
    arms = (arm(MEDIAN, NOBODY), arm(MEDIAN, SOME), arm(SUM, SOME))
    if not sweep.has(*arms):
        return None
    honest, withstood, carried = map(sweep.mean, arms)
    numbers = {
        f"accuracy, groups, {WITHSTOOD} liars": withstood,
        "accuracy, groups, none": honest,
        f"accuracy, one sum, {WITHSTOOD} liars": carried,
        "members in the smallest sum, groups": sweep.number(arms[0], MEMBERS),
        "members in the smallest sum, one sum": sweep.number(arms[2], MEMBERS),
    }
    kept = difference(sweep, arms[0], arms[1]).low >= -HELD
    return Verdict(kept and level(sweep, arms[2]).high < LOST, numbers)


def groups_break_beyond(sweep: Sweep) -> Verdict | None:
    """With a third of the peers lying, above the breakdown point, the median is lost as well."""
    arms = {name: arm(name, MANY) for name in (MEDIAN, BOTH)}
    if not sweep.has(*arms.values()):
        return None
    accuracy = {name: sweep.mean(one) for name, one in arms.items()}
    numbers = {f"accuracy, {name}, {TOO_MANY} liars": value for name, value in accuracy.items()}
    return Verdict(max(level(sweep, one).high for one in arms.values()) < LOST, numbers)


def gates_undo_a_single_lie(sweep: Sweep) -> Verdict | None:
    """In the three rounds after a single lie a swarm with gates is far ahead; it ends as if nobody lied."""
    arms = {name: arm(name, ONCE_ONLY) for name in (SUM, GATE)}
    if not sweep.has(*arms.values(), arm(GATE, NOBODY)) or len(sweep.curve(arms[GATE])) < _AFTER.stop:
        return None
    after = {name: sum(sweep.curve(one)[_AFTER]) / 3 for name, one in arms.items()}
    ended, honest = sweep.mean(arms[GATE]), sweep.mean(arm(GATE, NOBODY))
    numbers = {
        f"accuracy, {name}, mean of the three rounds after the lie": value for name, value in after.items()
    }
    numbers |= {"accuracy at the end, gate": ended, "accuracy at the end, gate, nobody lies": honest}
    numbers |= {"rolled-back rounds": sweep.mean(arms[GATE], ROLLED_BACK)}
    ahead = estimate(_after(sweep, arms[GATE]) - _after(sweep, arms[SUM]))
    as_before = difference(sweep, arm(GATE, NOBODY), arms[GATE]).low >= -LITTLE
    return Verdict(ahead.low >= AHEAD and as_before, {**numbers, "ahead, margin": ahead.margin})


def _after(sweep: Sweep, name: str) -> NDArray[np.float64]:
    """(seeds,) mean accuracies of the three rounds after the single lie."""
    return np.array([np.mean(outcome.figures[_AFTER]) for outcome in sweep.outcomes[name]])


def gates_keep_the_owners_model(sweep: Sweep) -> Verdict | None:
    """Under a lie that does not end, gates save the owners' models but cannot save the common one."""
    arms = {name: arm(name, FROM_LATE) for name in (SUM, GATE)}
    if not sweep.has(*arms.values()):
        return None
    common = sweep.mean(arms[GATE])
    own = {name: sweep.mean(one, OWN) for name, one in arms.items()}
    numbers = {"accuracy, common model, gate": common}
    numbers |= {f"accuracy of what honest peers go on from, {name}": value for name, value in own.items()}
    lost = max(level(sweep, arms[GATE]).high, level(sweep, arms[SUM], OWN).high)
    return Verdict(lost < LOST and level(sweep, arms[GATE], OWN).low >= KEPT, numbers)


CLAIMS: tuple[Claim[Sweep], ...] = (
    Claim(
        "Where nobody lies, median of group sums and loss gate cost at most 2 points.", defences_cost_little
    ),
    Claim(
        "As many liars as the breakdown point take at most 8 points from groups, and one sum is lost.",
        groups_withstand_few,
    ),
    Claim("With a third of the peers lying the median of group sums is lost, too.", groups_break_beyond),
    Claim("Loss gates lead a swarm back from a single lie.", gates_undo_a_single_lie),
    Claim(
        "Under a lie that does not end a gate keeps its owner's model, and not the common one.",
        gates_keep_the_owners_model,
    ),
)
