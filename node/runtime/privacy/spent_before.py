"""A key that was restored without its ledger: what the node says, and how `--spent-before` mends the ledger.

The owner gives a count of charges. The node books the charges that its ledger lacks as if they had been
spent, each at what the task's mechanism costs today. So epsilon goes on from there. If members show a higher
count later, the option no longer covers it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, SampledGaussian, privacy_spent
from mechanisms.mechanism import Mechanism
from node.runtime.privacy.budget import noise_of_counts, spent_by
from node.storage.records import NOTHING
from node.storage.state import State
from node.system.errors import ConfigError
from protocol.actions import LedgerBehind
from protocol.wire.messages import ChargeCount

OPTION = "--spent-before"


def count_text(count: ChargeCount) -> str:
    """Returns a count as the option takes it: SAMPLED+PLAIN."""
    return f"{count.sampled}+{count.plain}"


def _total(count: ChargeCount) -> int:
    return count.sampled + count.plain


def behind_text(behind: LedgerBehind, task: str) -> str:
    """Returns the line of a node whose own signature shows more charges than its ledger has."""
    shown, known = behind.shown, behind.known
    whole = ChargeCount(max(shown.sampled, known.sampled), max(shown.plain, known.plain))
    return (
        f"this key has been charged {_total(shown)} times for task {task!r}, as a member shows by the "
        f"key's own signature, and this folder knows of {_total(known)}: put back the newest --out, or "
        f"the .spent file beside the key; if both are lost, {OPTION} {count_text(whole)} counts all as spent"
    )


def count_as_spent(state: State, mechanism: Mechanism, count: ChargeCount, at_ms: int) -> str:
    """Books the charges up to `count` that the ledger lacks; returns what to warn the owner of.

    Raises ConfigError for a mechanism that charges nothing.
    """
    known, given, guarantee = state.charged, f"{OPTION} {count_text(count)}", mechanism.guarantee
    if guarantee is None:
        raise ConfigError(f"{given} is refused: privacy.mechanism = {mechanism.name!r} charges nothing")
    missing = ChargeCount(max(0, count.sampled - known.sampled), max(0, count.plain - known.plain))
    events = _standing_for(mechanism, guarantee.delta, missing)
    if not events:
        return (
            f"{given}: this folder already knows of {_total(known)} charges, so the option changes nothing: "
            "leave it out"
        )
    name = hashlib.sha256(f"murmuration/1/spent-before {count_text(count)}".encode()).digest()
    total = spent_by(mechanism, state.ledger.adding(events))
    state.charge(name, 0, at_ms, replace(NOTHING, events=events, total=total))
    return (
        f"{given}: {len(events)} charges that this folder did not know of count as spent, on its owner's "
        "word alone; if the key has spent more, epsilon is more than this node says"
    )


def _standing_for(mechanism: Mechanism, delta: float, missing: ChargeCount) -> tuple[Event, ...]:
    """Returns `missing` events of each kind; they cost no less than such charges with this mechanism."""
    noise = noise_of_counts(mechanism)
    units = (*mechanism.per_training, *mechanism.per_offer, *(() if noise is None else (noise.event,)))
    kinds: dict[bool, list[Event]] = {True: [], False: []}
    for unit in units:
        kinds[isinstance(unit, SampledGaussian)].append(unit)
    others = [_of_the_other_kind(unit) for unit in units]
    sampled, plain = kinds[True] or others, kinds[False] or others
    return (*_costliest(sampled, delta) * missing.sampled, *_costliest(plain, delta) * missing.plain)


def _of_the_other_kind(unit: Event) -> Event:
    """Returns an event of the other kind that costs no less.

    A key may have been charged by another mechanism, under the same name of a task.
    """
    match unit:
        case SampledGaussian(z, _, steps):
            return Gaussian(z / math.sqrt(steps))
        case Gaussian(z):
            return SampledGaussian(z, 1.0, 1)
        case _:
            return SampledGaussian(0.0, 1.0, 1)


def _costliest(events: Sequence[Event], delta: float) -> tuple[Event, ...]:
    """Returns the event that costs most by itself; () if there is none."""
    return tuple(sorted(events, key=lambda event: -privacy_spent(Ledger.of((event,)), delta).epsilon))[:1]
