"""A node's privacy budget: its mechanism, what it can still afford, the charge of an offer, and the words.

The formulas are in `mechanisms`; this module applies them to the node's own ledger.
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


def receipt_of(mechanism: Mechanism, ledger: Ledger, pending: Sequence[Event], memory: Memory) -> Receipt:
    """Returns the receipt of an offer of `pending` training; `memory` is the mechanism's memory after it."""
    events = (*pending, *mechanism.per_offer)
    return Receipt(events, memory, spent_by(mechanism, ledger.adding(events)))


def spent_by(mechanism: Mechanism, ledger: Ledger) -> Spent | None:
    """Returns the total cost of a ledger; None without a privacy guarantee."""
    return spent(ledger, mechanism.guarantee.delta) if mechanism.guarantee else None


def introduction(mechanism: Mechanism) -> dict[str, str]:
    """Returns the start-up lines: the budget, what and whom it protects, and what it does not cover."""
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
    }


def ledger_text(privacy: Mapping[str, object]) -> str:
    """Returns the ledger, as `facts` gives it, in one line."""
    outside = f"; not covered: {privacy['outside']}" if privacy["outside"] else ""
    return (
        f"privacy spent: epsilon {privacy['epsilon_spent']:.4g} of {privacy['epsilon_budget']:.4g} at delta "
        f"{privacy['delta']:g} ({privacy['epsilon_remaining']:.4g} remain), for {privacy['unit']} "
        f"({privacy['neighbours']}){outside}"
    )
