"""The weight of each update in the mean, and how a group sums weights without revealing a single one.

    uniform:  offer x                      mean = sum x / n
    samples:  offer [x of w u | w bound]   mean = sum x / sum w      w = min(rows / cap, 1), u: the progress

A node applies its weight before clipping and noise, so a mechanism's guarantee holds for the offer x. The
weight itself is one more word after the offer and has no noise. All members divide the same words by the same
word, so they obtain the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from node.storage.vector_files import Floats
from node.task.sections import AggregationSection

WRONG_WEIGHTS = (
    "a sum of weights that honest peers cannot have: somebody lied about its number of rows; the model "
    "stays as it was"
)
_ERROR = 2.0**-22
"""Error bound of a mean weight: less than n / 2^31 for n <= 64 fixed-point weights, plus float32 rounding."""


class Weighting(Protocol):
    """Converts a node's progress to the vector that a session sums, and the session's mean back."""

    @property
    def slots(self) -> int:
        """How many words a summed vector has after the model's."""

    def weighed(self, progress: Floats) -> Floats:
        """Returns the weighted progress (d,), from which a mechanism makes an offer; may be `progress`."""

    def with_slots(self, offer: Floats) -> Floats:
        """Returns the vector (d + slots,) for an offer (d,)."""

    def offers(self, summed: Floats) -> Floats:
        """Returns the mean of the offers (d,), a view of a session's mean (d + slots,)."""

    def mean(self, summed: Floats) -> Floats | None:
        """Returns the mean of the updates (d,) for a session's mean (d + slots,), which it overwrites.

        None if honest members cannot have such weights.
        """

    @property
    def words(self) -> dict[str, str]:
        """The start-up lines about the weight; empty if there are none."""


class Uniform:
    """Every update counts the same."""

    slots = 0

    def weighed(self, progress: Floats) -> Floats:
        """Returns `progress` unchanged."""
        return progress

    def with_slots(self, offer: Floats) -> Floats:
        """Returns `offer` unchanged."""
        return offer

    def offers(self, summed: Floats) -> Floats:
        """Returns `summed` unchanged."""
        return summed

    def mean(self, summed: Floats) -> Floats | None:
        """Returns `summed` unchanged."""
        return summed

    @property
    def words(self) -> dict[str, str]:
        """No lines."""
        return {}


@dataclass(frozen=True)
class BySamples:
    """An update has the weight min(rows / cap, 1). `bound` limits each word of an offer and encodes 1."""

    rows: int
    cap: int
    bound: float

    slots = 1

    @property
    def weight(self) -> float:
        """w = min(rows / cap, 1)."""
        return min(self.rows / self.cap, 1.0)

    @property
    def _one(self) -> np.float32:
        """The word for weight 1."""
        return largest_word(self.bound)

    def weighed(self, progress: Floats) -> Floats:
        """Returns w * progress (d,), a new vector."""
        return progress * np.float32(self.weight)

    def with_slots(self, offer: Floats) -> Floats:
        """Appends the weight, scaled to the bound, where fixed point has its finest resolution."""
        return np.append(offer, np.float32(self.weight * float(self._one)))

    def offers(self, summed: Floats) -> Floats:
        """Returns a view of all words except the weight."""
        return summed[:-1]

    def mean(self, summed: Floats) -> Floats | None:
        """Divides by the mean weight in place. None unless that lies between one row's weight and 1."""
        weight = summed[-1] / self._one
        if not 1 / self.cap - _ERROR <= weight <= 1 + _ERROR:
            return None
        return np.divide(summed[:-1], weight, out=summed[:-1])

    @property
    def words(self) -> dict[str, str]:
        """The weight, and who learns the number of rows."""
        return {
            "weight": f"min(rows / {self.cap}, 1) = {self.weight:.4g}; the number of rows leaves this node "
            "only inside the sum of all weights"
        }


def largest_word(bound: float) -> np.float32:
    """Returns the largest float32 within the bound of an offer, so that it is not clipped."""
    one = np.float32(bound)
    return np.nextafter(one, np.float32(0)) if float(one) > bound else one


def make_weighting(section: AggregationSection, rows: int, bound: float) -> Weighting:
    """Returns the weighting that `aggregation.weighting` names, for a node with `rows` training rows."""
    if section.weighting == "uniform" or section.sample_cap is None:
        return Uniform()
    return BySamples(rows, section.sample_cap, bound)
