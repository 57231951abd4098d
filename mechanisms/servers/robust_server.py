"""Federated averaging with a robust aggregator in place of the mean.

The server sees every single update, so this is incompatible with secure aggregation and protects nothing from
the server. Aggregators weigh all clients equally and ignore the numbers of rows that clients state, as a liar
would state many.
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
from mechanisms.servers.server import ALL_AT_STAKE, Federation, Indices, PlainTraining, among, fixed_sample

Aggregate = Callable[..., Floats]


def _weak_dp(updates: Updates, words: Words, norm_bound: float, noise_std: float) -> Floats:
    return robust.weak_dp(updates, norm_bound, noise_std, words)


def _group_median(updates: Updates, words: Words, groups: int) -> Floats:
    return group_median(updates, groups, words)


def _without_words(aggregate: Callable[..., Floats]) -> Aggregate:
    def without(updates: Updates, words: Words, **parameters: object) -> Floats:
        return aggregate(updates, **parameters)

    return without


def _centred_clipping(updates: Updates, radius: float, steps: int = 1) -> Floats:
    """Clips around zero: the server keeps no state from round to round."""
    return robust.centred_clipping(updates, np.zeros(updates.shape[1], np.float32), radius, steps)


AGGREGATORS: Mapping[str, Aggregate] = {
    "norm-bound": _without_words(robust.norm_bounded_mean),
    "weak-dp": _weak_dp,
    "coordinate-median": _without_words(robust.coordinate_median),
    "trimmed-mean": _without_words(robust.trimmed_mean),
    "geometric-median": _without_words(robust.geometric_median),
    "krum": _without_words(robust.krum),
    "multi-krum": _without_words(robust.multi_krum),
    "bulyan": _without_words(robust.bulyan),
    "centred-clipping": _without_words(_centred_clipping),
    "group-median": _group_median,
}
"""Aggregators by name; each takes updates (k, d), words, and its own parameters as named in `robust`."""


def breakdown_point(aggregator: str, clients: int, parameters: Mapping[str, object]) -> int | None:
    """The number of `clients` that may lie, as `robust` states; None if there is no breakdown point."""
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
class Robust(PlainTraining):
    """Aggregates the updates of `clients_per_round` clients by `aggregator` with `parameters`.

    It ignores uploads that are not finite. Raises ValueError or TypeError if the aggregator does not accept
    these parameters for so many clients, such as more attackers than its breakdown point.
    """

    federation: Federation
    clients_per_round: int
    aggregator: str
    parameters: Mapping[str, object]

    def __post_init__(self) -> None:
        chosen = among("clients_per_round", self.clients_per_round, self.federation)
        if self.aggregator not in AGGREGATORS:
            allowed = ", ".join(map(repr, AGGREGATORS))
            raise ValueError(f"aggregator = {self.aggregator!r} is not allowed: {allowed}")
        self._aggregated(np.zeros((chosen, 1), np.float32), _NoWords())

    @property
    def name(self) -> str:
        """The name in results."""
        return self.aggregator

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return ALL_AT_STAKE

    @property
    def withstands(self) -> int | None:
        """The breakdown point that mechanisms.servers.robust states."""
        return breakdown_point(self.aggregator, self.clients_per_round, self.parameters)

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """Samples `clients_per_round` of them."""
        return fixed_sample(clients, self.clients_per_round, rng)

    def combine(self, model: Floats, uploads: Sequence[Floats], rows: Sequence[int], words: Words) -> Floats:
        """Returns the model plus the aggregate of the updates; the model itself if no upload is finite."""
        return moved(model, uploads, lambda updates: self._aggregated(updates, words))

    def _aggregated(self, updates: Updates, words: Words) -> Floats:
        return AGGREGATORS[self.aggregator](updates, words, **self.parameters)


def moved(model: Floats, uploads: Sequence[Floats], aggregate: Callable[[Updates], Floats]) -> Floats:
    """`model` (d,) plus what `aggregate` makes of the updates (k, d) in those `uploads` that are finite.

    The model itself if there are none.
    """
    if not len(uploads):
        return model
    sent = np.stack(uploads)
    finite = robust.finite_rows(sent)
    if not finite.any():
        return model
    updates = (sent[finite].astype(np.float64) - model).astype(np.float32)
    result: Floats = (model.astype(np.float64) + aggregate(updates)).astype(np.float32)
    return result
