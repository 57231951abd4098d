"""What shared noise costs if fewer or more members are honest than it was sized for."""

from __future__ import annotations

import math
from dataclasses import replace

from mechanisms.accounting.ledger import Gaussian, Ledger, SampledGaussian
from mechanisms.arguments import count


def at_honest(ledger: Ledger, sized_for: int, honest: int) -> Ledger:
    """Returns the ledger of the same releases if `honest` other members are honest, 0 or more.

    Their noise was sized for `sized_for` honest others: each member adds a share of 1 / (sized_for + 1) of
    the variance, and the record's owner is honest. So the noise that remains is z sqrt((honest + 1) /
    (sized_for + 1)) (`mechanisms.gradients.distributed`). All Gaussian releases have shared noise, those of
    steps and of counts; others stay as they are.
    """
    factor = math.sqrt((count("honest + 1", honest + 1)) / (count("sized_for", sized_for) + 1))
    return Ledger(
        tuple(
            (replace(event, noise_multiplier=event.noise_multiplier * factor), times)
            if isinstance(event, Gaussian | SampledGaussian)
            else (event, times)
            for event, times in ledger.counts
        )
    )
