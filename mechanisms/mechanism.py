"""The one place between a node's progress and what it offers to its group.

`offer` is called once for each offer, on the progress that was never offered before (`fresh`), right
before the vector is encoded and shared. What it returns is all that the others can ever learn of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Mechanism(Protocol):
    """From `fresh` to the offered vector."""

    @property
    def name(self) -> str:
        """As a task file names it in `privacy.mechanism`."""

    @property
    def protects(self) -> str:
        """In words, what an offer gives away and what it does not."""

    def offer(self, fresh: Floats) -> Floats:
        """(d,) float32 to (d,) float32: what goes into the sum. The argument is not changed."""


@dataclass(frozen=True, slots=True)
class Unprotected:
    """`privacy.mechanism = "none"`: the update as it is. Only the secure sum hides it among the others."""

    name: str = "none"
    protects: str = "secure aggregation hides your update in the sum; the sum itself has no noise"

    def offer(self, fresh: Floats) -> Floats:
        """`fresh` itself: nothing is clipped and no noise is added."""
        return fresh


def mechanism(name: str) -> Mechanism:
    """The mechanism of this name; ValueError on a name that this version does not have."""
    if name == "none":
        return Unprotected()
    raise ValueError(f"privacy.mechanism {name!r} is not in this version; allowed: 'none'")
