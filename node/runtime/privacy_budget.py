"""A node's privacy budget: its mechanism, what it can still afford, the charge of an offer, and the words.

The formulas are in `mechanisms`; this module applies them to the node's own ledger.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from mechanisms.accounting.honest import at_honest
from mechanisms.accounting.ledger import Event, Ledger, SampledGaussian, Spent, spent
from mechanisms.mechanism import Mechanism, Memory, Setting, SharedSetting
from node.errors import ConfigError, reason
from node.storage.records import Receipt
from node.task.import_path import import_class
from node.task.sections import Task
from protocol.wire.limits import MAX_MEMBERS

if TYPE_CHECKING:  # loads torch, which a tracker does not need
    from mechanisms.updates.distributed import DistributedDP

_ROUNDING = 1 + 1e-9
_PARTS = tuple(name for name in dir(Mechanism) if not name.startswith("_"))


def make_mechanism(task: Task, shapes: Sequence[tuple[str, tuple[int, ...]]], rows: int) -> Mechanism:
    """Makes the mechanism that `privacy.mechanism` names, for this node's work.

    An import path `package.module:Class` is called with a `mechanisms.mechanism.Setting`, like the built-in
    mechanisms. Raises ConfigError if the mechanism cannot be made or lacks a part.
    """
    from mechanisms.registry import MECHANISMS  # noqa: PLC0415 - loads torch, which a tracker does not need

    name = task.privacy.mechanism
    make = MECHANISMS[name] if name in MECHANISMS else import_class(name)
    setting = Setting(
        epsilon=task.privacy.epsilon,
        delta=task.privacy.delta,
        clipping_radius=task.privacy.clipping_radius,
        window=task.privacy.window,
        window_source=task.privacy.window_source,
        calibration=task.privacy.calibration,
        rounds=task.train.rounds,
        sizes=tuple(prod(shape) for _, shape in shapes),
        rows=rows,
        batch_size=task.train.batch_size,
        epochs=task.train.epochs,
        shared=_shared_setting(task),
    )
    try:
        mechanism = make(setting)
        missing = [part for part in _PARTS if not hasattr(mechanism, part)]
    except Exception as error:  # a user's mechanism may raise anything
        raise ConfigError(f"privacy.mechanism = {name!r}: {reason(error)}") from error
    if missing:
        raise ConfigError(f"privacy.mechanism = {name!r} is no mechanism: it has no {', '.join(missing)}")
    return mechanism


def _shared_setting(task: Task) -> SharedSetting | None:
    """Returns what members with shared noise agree on; None if they share none."""
    plan = task.step_plan
    if plan is None:
        return None
    return SharedSetting(
        honest=plan.honest,
        sampling_probability=plan.sampling_probability,
        expected_batch=plan.expected_batch,
        steps=plan.steps,
        members=MAX_MEMBERS,
    )


def offer_bound(task: Task, mechanism: Mechanism) -> float:
    """Returns the bound on coordinates of all offers: `aggregation.clip`, or more if the noise needs it.

    A calibration computes the noise's bound, and its last digit may differ between machines. All nodes need
    the same bound, so it is rounded up to three digits.
    """
    if mechanism.bound <= task.aggregation.clip:
        return task.aggregation.clip
    unit = 10.0 ** (math.floor(math.log10(mechanism.bound)) - 2)
    return float(f"{math.ceil(mechanism.bound / unit / _ROUNDING) * unit:.6g}")


def can_train(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether one more round of training and its offer stay within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_training, *mechanism.per_offer))


def can_offer(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Returns whether an offer of the training so far stays within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_offer))


def _fits(mechanism: Mechanism, ledger: Ledger, events: Sequence[Event]) -> bool:
    guarantee = mechanism.guarantee
    if guarantee is None:
        return True
    return spent(ledger.adding(events), guarantee.delta).epsilon <= guarantee.epsilon * _ROUNDING


def affordable_steps(mechanism: DistributedDP, ledger: Ledger) -> int:
    """Returns how many more steps stay within the budget; those that it was planned for, if they all do."""
    (step,) = mechanism.shared.events
    done = sum(event.steps * times for event, times in ledger.counts if isinstance(event, SampledGaussian))
    planned = max(0, mechanism.shared.steps - done)

    def is_beyond(more: int) -> bool:
        return not _fits(mechanism, ledger, (replace(step, steps=more),))

    if not planned or not is_beyond(planned):
        return planned
    return bisect_left(range(1, planned), True, key=is_beyond)


def receipt_of(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event], memory: Memory) -> Receipt:
    """Returns the receipt of an offer of `pending` training; `memory` is the mechanism's memory after it."""
    events = (*pending, *mechanism.per_offer)
    return Receipt(events, memory, spent_by(mechanism, ledger.adding(events)))


def spent_by(mechanism: Mechanism, ledger: Ledger) -> Spent | None:
    """Returns the total cost of a ledger; None without a privacy guarantee."""
    return spent(ledger, mechanism.guarantee.delta) if mechanism.guarantee else None


def epsilon_by_honest(mechanism: Mechanism, ledger: Ledger) -> Mapping[int, float]:
    """Returns the epsilon of a ledger by the number of honest other members, from the declared one down to 0.

    Empty for a mechanism without shared noise, whose epsilon does not depend on others.
    """
    guarantee = mechanism.guarantee
    honest = None if guarantee is None else guarantee.honest
    if guarantee is None or honest is None:
        return {}
    levels = sorted({honest, *range(honest, 0, -2), 0}, reverse=True)
    most_shown = [*levels[:3], 0] if len(levels) > 4 else levels
    return {h: spent(at_honest(ledger, honest, h), guarantee.delta).epsilon for h in most_shown}


def planned_by_honest(mechanism: Mechanism) -> Mapping[int, float]:
    """Returns what a whole run costs, by the number of honest other members; empty without shared noise."""
    from mechanisms.updates.distributed import DistributedDP  # noqa: PLC0415 - loads torch

    if not isinstance(mechanism, DistributedDP):
        return {}
    planned = replace(mechanism.shared.events[0], steps=mechanism.shared.steps)
    return epsilon_by_honest(mechanism, Ledger.of((planned,)))


def trust_text(by_honest: Mapping[int, float]) -> str:
    """Returns in words what an epsilon rests on."""
    (honest, epsilon), *fewer = by_honest.items()
    whom = f"{honest} of the other members are" if honest > 1 else "1 of the other members is"
    they = "they add their noise and tell nobody" if honest > 1 else "it adds its noise and tells nobody"
    some = ", ".join(
        f"with {h} it is {value:.2g}" if place else f"With {h} it is {value:.2g}"
        for place, (h, value) in enumerate(pair for pair in fewer if pair[0])
    )
    return (
        f"your records are protected with epsilon {epsilon:.3g} as long as at least {whom} honest: {they}. "
        f"{some + '. ' if some else ''}If all others work together, only your own noise is left: epsilon "
        f"{by_honest[0]:.2g}. A member that adds no noise counts as dishonest, and nobody can tell"
    )


def introduction(mechanism: Mechanism) -> dict[str, str]:
    """Returns the start-up lines: the budget, what and whom it protects, and what it does not cover."""
    guarantee = mechanism.guarantee
    if guarantee is None:
        return {"privacy": f"{mechanism.name}: {mechanism.protects}"}
    budget = f"epsilon {guarantee.stated:g}, delta {guarantee.delta:g} over the run"
    true = "" if guarantee.epsilon == guarantee.stated else f", truly {guarantee.epsilon:.4g}"
    by_honest = planned_by_honest(mechanism)
    return {
        "privacy": f"{mechanism.name}, {budget}{true}",
        **({"trust": trust_text(by_honest)} if by_honest else {}),
        "protects": mechanism.protects,
        "unit": guarantee.unit.words,
        "not covered": guarantee.outside or "nothing that leaves this node",
    }


def facts(mechanism: Mechanism, ledger: Ledger) -> Mapping[str, object] | None:
    """Returns the ledger for summary.json; None without a privacy guarantee."""
    guarantee, so_far = mechanism.guarantee, spent_by(mechanism, ledger)
    if guarantee is None or so_far is None:
        return None
    return {
        "mechanism": mechanism.name,
        "epsilon_spent": so_far.epsilon,
        "epsilon_budget": guarantee.epsilon,
        "epsilon_remaining": max(0.0, guarantee.epsilon - so_far.epsilon),
        "epsilon_stated": guarantee.stated,
        "delta": guarantee.delta,
        "accountant": so_far.method,
        "unit": guarantee.unit.what,
        "neighbours": str(guarantee.unit.relation),
        "norm": guarantee.unit.norm,
        "outside": guarantee.outside,
        "protects": mechanism.protects,
        **_honest_facts(epsilon_by_honest(mechanism, ledger)),
    }


def _honest_facts(by_honest: Mapping[int, float]) -> Mapping[str, object]:
    """Returns the part of `facts` on whom the guarantee rests; empty if it rests on nobody."""
    if not by_honest:
        return {}
    return {
        "honest": next(iter(by_honest)),
        "epsilon_alone": by_honest[0],
        "epsilon_by_honest": {str(honest): epsilon for honest, epsilon in by_honest.items()},
    }


def ledger_text(privacy: Mapping[str, object]) -> str:
    """Returns the ledger, as `facts` gives it, in one line."""
    outside = f"; not covered: {privacy['outside']}" if privacy["outside"] else ""
    return (
        f"privacy spent: epsilon {privacy['epsilon_spent']:.4g} of {privacy['epsilon_budget']:.4g} at delta "
        f"{privacy['delta']:g} ({privacy['epsilon_remaining']:.4g} remain), for {privacy['unit']} "
        f"({privacy['neighbours']}){outside}"
    )
