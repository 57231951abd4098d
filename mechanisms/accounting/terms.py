"""The part of a ledger that counts for one unit of privacy, and its noise if fewer members are honest.

One key may pay for several runs, each with its own mechanism and group. An event carries the terms that it
was sized for (`Terms`), so a later run does not change what an earlier one cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, SampledGaussian, Terms, Unit
from mechanisms.arguments import count

UNKNOWN = "unknown"
"""The mechanism of a charge that an earlier version wrote, without its terms."""
CELLS = "cells of columns"
"""That of a histogram that a run releases before its first step."""


def unknown_terms(run: Terms) -> Terms:
    """Returns the terms that a node gives to charges without any; its present charges have those of `run`.

    They count for every unit. Their noise counts as shared with as many honest members as the run's, and with
    one at least: a smaller number would count the noise that remains too high (`at_honest`).
    """
    return Terms(UNKNOWN, None, max(1, run.honest or 1))


def with_terms(ledger: Ledger, terms: Terms) -> Ledger:
    """Returns the ledger, in which events without terms get these."""
    return _map_events(ledger, lambda event: event if event.terms else replace(event, terms=terms))


def units(ledger: Ledger) -> tuple[Unit, ...]:
    """Returns the units of the events, in a fixed order."""
    found = {event.terms.unit for event, _ in ledger.counts if event.terms and event.terms.unit}
    return tuple(sorted(found, key=lambda unit: unit.words))


def ledger_of_unit(ledger: Ledger, unit: Unit) -> Ledger:
    """Returns the events that count for `unit`: those that name it, and those that name no unit."""
    return Ledger(
        tuple(
            (event, times)
            for event, times in ledger.counts
            if event.terms is None or event.terms.unit in (None, unit)
        )
    )


def mechanisms_of(ledger: Ledger) -> tuple[str, ...]:
    """Returns the names of the events' mechanisms, in alphabetical order."""
    return tuple(sorted({event.terms.mechanism for event, _ in ledger.counts if event.terms}))


def has_unknown(ledger: Ledger) -> bool:
    """Returns whether the ledger has charges whose terms nobody knows (`unknown_terms`)."""
    return UNKNOWN in mechanisms_of(ledger)


def has_no_bound(ledger: Ledger) -> bool:
    """Returns whether the ledger has a release without noise that counts for every unit."""
    return any(
        isinstance(event, Gaussian)
        and not event.noise_multiplier
        and (not event.terms or not event.terms.unit)
        for event, _ in ledger.counts
    )


def at_honest(ledger: Ledger, honest: int) -> Ledger:
    """Returns the releases, without terms, with the noise that remains if `honest` (0 or more) are honest.

    `honest` counts other members. Members share noise that was sized for H honest others: each adds
    1 / (H + 1) of the variance. The record's owner is honest, so z sqrt((honest + 1) / (H + 1)) remains of
    the multiplier z (`mechanisms.gradients.shared_noise`). Releases whose noise is all the owner's own
    stay as they are, and so do those that are not Gaussian.
    """
    remain = count("honest + 1", honest + 1)

    def remaining(event: Event) -> Event:
        sized_for = None if event.terms is None else event.terms.honest
        plain = replace(event, terms=None)
        if sized_for is None or not isinstance(plain, Gaussian | SampledGaussian):
            return plain
        factor = math.sqrt(remain / (sized_for + 1))
        return replace(plain, noise_multiplier=plain.noise_multiplier * factor)

    return _map_events(ledger, remaining)


def _map_events(ledger: Ledger, change: Callable[[Event], Event]) -> Ledger:
    return Ledger(tuple((change(event), times) for event, times in ledger.counts))
