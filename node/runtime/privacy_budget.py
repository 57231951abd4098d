"""A node's privacy: the mechanism of its task, what it can still afford, what an offer is charged, in words.

The formulas are in `mechanisms`; this is where a node applies them to its own ledger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import prod

from mechanisms.accounting.ledger import Event, Ledger, Spent, spent
from mechanisms.mechanism import Mechanism, Memory, Setting
from node.errors import ConfigError, reason
from node.storage.records import Receipt
from node.task.import_path import import_class
from node.task.sections import Task

_ROUNDING = 1 + 1e-9
_PARTS = tuple(name for name in dir(Mechanism) if not name.startswith("_"))


def make_mechanism(task: Task, shapes: Sequence[tuple[str, tuple[int, ...]]], rows: int) -> Mechanism:
    """The mechanism that `privacy.mechanism` names, for this node's work; ConfigError for what can not be.

    An import path `package.module:Class` is called with a `mechanisms.mechanism.Setting`, as the built-in
    ones are.
    """
    from mechanisms.registry import MECHANISMS  # noqa: PLC0415 - loads torch, which a tracker has no use for

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
    )
    try:
        mechanism = make(setting)
        missing = [part for part in _PARTS if not hasattr(mechanism, part)]
    except Exception as error:  # a user's mechanism may raise anything
        raise ConfigError(f"privacy.mechanism = {name!r}: {reason(error)}") from error
    if missing:
        raise ConfigError(f"privacy.mechanism = {name!r} is no mechanism: it has no {', '.join(missing)}")
    return mechanism


def offer_bound(task: Task, mechanism: Mechanism) -> float:
    """What no coordinate of anybody's offer exceeds: `aggregation.clip`, or what the noise needs.

    The noise's bound comes out of a calibration, whose last digit may differ from machine to machine, and all
    nodes must have the same: so it is rounded up to three digits.
    """
    if mechanism.bound <= task.aggregation.clip:
        return task.aggregation.clip
    unit = 10.0 ** (math.floor(math.log10(mechanism.bound)) - 2)
    return float(f"{math.ceil(mechanism.bound / unit / _ROUNDING) * unit:.6g}")


def can_train(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Whether one more round of training, and the offer of it, stay within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_training, *mechanism.per_offer))


def can_offer(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event]) -> bool:
    """Whether an offer of what was trained already stays within the budget."""
    return _fits(mechanism, ledger, (*pending, *mechanism.per_offer))


def _fits(mechanism: Mechanism, ledger: Ledger, events: Sequence[Event]) -> bool:
    guarantee = mechanism.guarantee
    if guarantee is None:
        return True
    return spent(ledger.adding(events), guarantee.delta).epsilon <= guarantee.epsilon * _ROUNDING


def receipt_of(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event], memory: Memory) -> Receipt:
    """What an offer of `pending` training is charged; `memory` is the one that it leaves."""
    events = (*pending, *mechanism.per_offer)
    return Receipt(events, memory, spent_by(mechanism, ledger.adding(events)))


def spent_by(mechanism: Mechanism, ledger: Ledger) -> Spent | None:
    """What a ledger has cost in all; None where no privacy is on."""
    return spent(ledger, mechanism.guarantee.delta) if mechanism.guarantee else None


def introduction(mechanism: Mechanism) -> dict[str, str]:
    """What the owner reads at the start: the budget, what it protects, for whom, and what is outside it."""
    guarantee = mechanism.guarantee
    if guarantee is None:
        return {"privacy": f"{mechanism.name}: {mechanism.protects}"}
    budget = f"epsilon {guarantee.stated:g}, delta {guarantee.delta:g} over the run"
    true = "" if guarantee.epsilon == guarantee.stated else f", truly {guarantee.epsilon:.4g}"
    return {
        "privacy": f"{mechanism.name}, {budget}{true}",
        "protects": mechanism.protects,
        "unit": guarantee.unit.words,
        "not covered": guarantee.outside or "nothing that leaves this node",
    }


def facts(mechanism: Mechanism, ledger: Ledger) -> Mapping[str, object] | None:
    """The ledger for summary.json; None where no privacy is on."""
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
    }


def ledger_text(privacy: Mapping[str, object]) -> str:
    """The ledger in a line, from `facts`."""
    outside = f"; not covered: {privacy['outside']}" if privacy["outside"] else ""
    return (
        f"privacy spent: epsilon {privacy['epsilon_spent']:.4g} of {privacy['epsilon_budget']:.4g} at delta "
        f"{privacy['delta']:g} ({privacy['epsilon_remaining']:.4g} remain), for {privacy['unit']} "
        f"({privacy['neighbours']}){outside}"
    )
