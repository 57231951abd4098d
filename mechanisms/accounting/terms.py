"""The part of a ledger that counts for one unit of privacy, with the noise that remains if few are honest.

A key's charges may come from several runs, with mechanisms and groups of their own. Each event knows what it
was sized for (`Terms`); so a later run changes nothing about the cost of an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, SampledGaussian, Terms, Unit
from mechanisms.arguments import count

UNKNOWN = "unknown"
"""The mechanism of charges of an earlier version, which did not write what they were sized for."""


def unknown(run: Terms) -> Terms:
    """Returns the terms of such a charge for a node whose own charges have those of `run`.

    It counts for any unit. One other member shares its noise, or as many as share the run's: with fewer, what
    remains of the same mechanism's noise would be counted too high.
    """
    return Terms(UNKNOWN, None, max(1, run.honest or 1))


def with_terms(ledger: Ledger, terms: Terms) -> Ledger:
    """Returns the ledger with these terms for events that have none."""
    return _changed(ledger, lambda event: event if event.terms else replace(event, terms=terms))


def units(ledger: Ledger) -> tuple[Unit, ...]:
    """Returns the units that the events speak of, in a fixed order."""
    found = {event.terms.unit for event, _ in ledger.counts if event.terms and event.terms.unit}
    return tuple(sorted(found, key=lambda unit: unit.words))


def about(ledger: Ledger, unit: Unit) -> Ledger:
    """Returns the events that count for `unit`: its own, and those that speak of any unit."""
    return Ledger(
        tuple(
            (event, times)
            for event, times in ledger.counts
            if event.terms is None or event.terms.unit in (None, unit)
        )
    )


def mechanisms_of(ledger: Ledger) -> tuple[str, ...]:
    """Returns the names of the mechanisms that charged, in alphabetical order."""
    return tuple(sorted({event.terms.mechanism for event, _ in ledger.counts if event.terms}))


def has_unknown(ledger: Ledger) -> bool:
    """Returns whether the ledger has charges without a record of what they were sized for (`unknown`)."""
    return UNKNOWN in mechanisms_of(ledger)


def has_no_bound(ledger: Ledger) -> bool:
    """Returns whether the ledger has a release without noise that concerns every unit."""
    return any(
        isinstance(event, Gaussian)
        and not event.noise_multiplier
        and (not event.terms or not event.terms.unit)
        for event, _ in ledger.counts
    )


def at_honest(ledger: Ledger, honest: int) -> Ledger:
    """Returns the same releases, without terms, as they are if `honest` other members are honest, 0 or more.

    Noise that was sized for H honest others is shared: each member adds 1 / (H + 1) of its variance, and the
    record's owner is honest. So the noise that remains is z sqrt((honest + 1) / (H + 1))
    (`mechanisms.gradients.distributed`). A release whose noise is all the owner's own does not change, nor
    does one that is not Gaussian.
    """
    remain = count("honest + 1", honest + 1)

    def remaining(event: Event) -> Event:
        sized_for = None if event.terms is None else event.terms.honest
        plain = replace(event, terms=None)
        if sized_for is None or not isinstance(plain, Gaussian | SampledGaussian):
            return plain
        factor = math.sqrt(remain / (sized_for + 1))
        return replace(plain, noise_multiplier=plain.noise_multiplier * factor)

    return _changed(ledger, remaining)


def _changed(ledger: Ledger, change: Callable[[Event], Event]) -> Ledger:
    return Ledger(tuple((change(event), times) for event, times in ledger.counts))
