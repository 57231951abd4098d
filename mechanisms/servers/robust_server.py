"""Federated averaging with a robust aggregator in place of the mean.

The server sees every single update: secure aggregation cannot be used, and nothing is protected from the
server. All clients weigh the same. The numbers of rows that clients state do not count, as a liar would state
many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers import robust
from mechanisms.servers.group_median import group_median, lies_withstood
from mechanisms.servers.robust import Updates
from mechanisms.servers.server import FixedSample, State, Upload

Aggregate = Callable[..., Floats]


def _weak_dp(
    updates: Updates, last: Floats | None, words: Words, norm_bound: float, noise_std: float
) -> Floats:
    return robust.weak_dp(updates, norm_bound, noise_std, words)


def _group_median(updates: Updates, last: Floats | None, words: Words, groups: int) -> Floats:
    return group_median(updates, groups, words)


def _of_updates(aggregate: Callable[..., Floats]) -> Aggregate:
    def of_updates(updates: Updates, last: Floats | None, words: Words, **parameters: object) -> Floats:
        return aggregate(updates, **parameters)

    return of_updates


def _centred_clipping(updates: Updates, last: Floats, words: Words, radius: float, steps: int = 1) -> Floats:
    """Clips around the last round's aggregate, as Karimireddy et al. 2021 do, and around zero at first."""
    return robust.centred_clipping(updates, last, radius, steps)


CENTRED_CLIPPING = "centred-clipping"

AGGREGATORS: Mapping[str, Aggregate] = {
    "norm-bound": _of_updates(robust.norm_bounded_mean),
    "weak-dp": _weak_dp,
    "coordinate-median": _of_updates(robust.coordinate_median),
    "trimmed-mean": _of_updates(robust.trimmed_mean),
    "geometric-median": _of_updates(robust.geometric_median),
    "krum": _of_updates(robust.krum),
    "multi-krum": _of_updates(robust.multi_krum),
    "bulyan": _of_updates(robust.bulyan),
    CENTRED_CLIPPING: _centred_clipping,
    "group-median": _group_median,
}
"""Aggregators by name. Each takes updates (k, d), the last aggregate (d,) or None, words, and its own
parameters, named as in `robust`."""


def breakdown_point(aggregator: str, clients: int, parameters: Mapping[str, object]) -> int | None:
    """How many of `clients` may lie, as `robust` states it; None if there is no breakdown point."""
    match aggregator:
        case "coordinate-median" | "geometric-median":
            return (clients - 1) // 2
        case "trimmed-mean":
            return _number(parameters["trimmed"])
        case "group-median":
            return lies_withstood(_number(parameters["groups"]))
        case "krum" | "multi-krum" | "bulyan":
            return _number(parameters["attackers"])
    return None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


class _NoWords:
    """Zeros, for a trial whose result is discarded."""

    def fill(self, out: np.ndarray) -> None:
        out[:] = 0


@dataclass(frozen=True, slots=True)
class Robust(FixedSample):
    """Aggregates the updates of `clients_per_round` clients by `aggregator` with `parameters`.

    It ignores uploads that are not finite. Raises ValueError or TypeError for parameters that the aggregator
    refuses for so many clients, such as more attackers than it withstands.
    """

    aggregator: str
    parameters: Mapping[str, object]

    def __post_init__(self) -> None:
        FixedSample.__post_init__(self)
        if self.aggregator not in AGGREGATORS:
            allowed = ", ".join(map(repr, AGGREGATORS))
            raise ValueError(f"aggregator = {self.aggregator!r} is not allowed: {allowed}")
        trial = np.zeros((self.clients_per_round, 1), np.float32)
        self._aggregate(trial, trial[0], _NoWords())

    @property
    def name(self) -> str:
        """The name in results."""
        return self.aggregator

    @property
    def withstands(self) -> int | None:
        """The breakdown point that mechanisms.servers.robust states."""
        return breakdown_point(self.aggregator, self.clients_per_round, self.parameters)

    def start(self) -> Floats | None:
        """Zeros (d,), around which centred clipping starts; None for the others, which remember nothing."""
        return np.zeros(self.federation.dimension, np.float32) if self._has_memory else None

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """Returns the model plus the aggregate of the updates, and the new state.

        state: the last aggregate (d,), for centred clipping. Without a finite upload both stay as they are.
        """
        if not len(uploads):
            return model, state
        sent = np.stack([own.vector for own in uploads])
        finite = robust.finite_rows(sent)
        if not finite.any():
            return model, state
        updates = (sent[finite].astype(np.float64) - model).astype(np.float32)
        aggregate = self._aggregate(updates, state, words)
        moved: Floats = (model.astype(np.float64) + aggregate).astype(np.float32)
        return moved, aggregate if self._has_memory else state

    @property
    def _has_memory(self) -> bool:
        return self.aggregator == CENTRED_CLIPPING

    def _aggregate(self, updates: Updates, last: Floats | None, words: Words) -> Floats:
        return AGGREGATORS[self.aggregator](updates, last, words, **self.parameters)
