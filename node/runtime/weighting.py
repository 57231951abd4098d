"""How much each update counts in the mean, and how that is summed without anybody seeing a single weight.

    uniform:  offer x                      mean = sum x / n
    samples:  offer [x of w u | w bound]   mean = sum x / sum w      w = min(rows / cap, 1), u: the progress

A weight is applied before anything is clipped or noised, so a mechanism's guarantee is that of the offer x;
the weight itself stands in one word behind it, and has no noise. All divide the same words by the same word:
they come to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from node.storage.vector_files import Floats
from node.task.sections import AggregationSection

WRONG_WEIGHTS = (
    "a sum of weights that honest peers can not have: somebody lied about its number of rows; the model "
    "stays as it was"
)
_ERROR = 2.0**-22
"""Of a mean weight: less than n / 2^31 for n <= 64 weights in fixed point, and float32's rounding of it."""


class Weighting(Protocol):
    """From a node's progress to what a session sums, and from its mean to the mean of updates."""

    @property
    def slots(self) -> int:
        """How many words a summed vector has behind the model's."""

    def weighed(self, progress: Floats) -> Floats:
        """What a mechanism makes an offer of: progress (d,), as much of it as counts. May be `progress`."""

    def with_slots(self, offer: Floats) -> Floats:
        """(d + slots,) of an offer (d,)."""

    def offers(self, summed: Floats) -> Floats:
        """The mean of the offers, (d,), of a session's mean (d + slots,): a view."""

    def mean(self, summed: Floats) -> Floats | None:
        """The mean of the updates, (d,), of a session's mean (d + slots,), which is used up.

        None if the weights are none that honest members have.
        """

    @property
    def words(self) -> dict[str, str]:
        """What the owner reads at the start; empty where there is nothing to say."""


class Uniform:
    """Every update counts the same."""

    slots = 0

    def weighed(self, progress: Floats) -> Floats:
        """All of it."""
        return progress

    def with_slots(self, offer: Floats) -> Floats:
        """As it is."""
        return offer

    def offers(self, summed: Floats) -> Floats:
        """As it is."""
        return summed

    def mean(self, summed: Floats) -> Floats | None:
        """As it is."""
        return summed

    @property
    def words(self) -> dict[str, str]:
        """Nothing."""
        return {}


@dataclass(frozen=True)
class BySamples:
    """An update counts min(rows / cap, 1). `bound`: what no word of an offer exceeds; it stands for 1."""

    rows: int
    cap: int
    bound: float

    slots = 1

    @property
    def weight(self) -> float:
        """w."""
        return min(self.rows / self.cap, 1.0)

    @property
    def _one(self) -> np.float32:
        """The word of weight 1: the largest float32 within the bound, which is not cut."""
        one = np.float32(self.bound)
        return np.nextafter(one, np.float32(0)) if float(one) > self.bound else one

    def weighed(self, progress: Floats) -> Floats:
        """A new vector."""
        return progress * np.float32(self.weight)

    def with_slots(self, offer: Floats) -> Floats:
        """The weight behind it, on the scale of the bound, where fixed point is as fine as can be."""
        return np.append(offer, np.float32(self.weight * float(self._one)))

    def offers(self, summed: Floats) -> Floats:
        """All but the weight."""
        return summed[:-1]

    def mean(self, summed: Floats) -> Floats | None:
        """In place. None unless the mean weight lies between one row's and 1."""
        weight = summed[-1] / self._one
        if not 1 / self.cap - _ERROR <= weight <= 1 + _ERROR:
            return None
        return np.divide(summed[:-1], weight, out=summed[:-1])

    @property
    def words(self) -> dict[str, str]:
        """How it counts, and who sees the number of rows."""
        return {
            "weight": f"min(rows / {self.cap}, 1) = {self.weight:.4g}; the number of rows leaves this node "
            "only inside the sum of all weights"
        }


def make_weighting(section: AggregationSection, rows: int, bound: float) -> Weighting:
    """The one that `aggregation.weighting` names, for a node of so many training rows."""
    if section.weighting == "uniform" or section.sample_cap is None:
        return Uniform()
    return BySamples(rows, section.sample_cap, bound)
