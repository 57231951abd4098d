"""Gaussian noise on every client's rows, drawn once: training on them costs nothing more.

Unit of privacy: one record's features, over the run; neither its label nor its owner is covered. Neighbours:
replace. Norm: L2. Clients clip rows to `row_norm`, so that two rows differ by at most 2 row_norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Event, Gaussian, Relation, Unit
from mechanisms.arguments import count
from mechanisms.mechanism import Guarantee
from mechanisms.noise.clipping import Floats, clip_rows
from mechanisms.noise.noise import noised
from mechanisms.noise.randomness import Words
from mechanisms.servers import rpfl
from mechanisms.servers.server import Federation, FixedSample, Labels

RECORD_FEATURES = Unit("one record's features, not its label, over the run", Relation.REPLACE, "L2")


@dataclass(frozen=True, slots=True)
class NoisyRows(FixedSample):
    """Federated averaging of clients that train on noised rows.

    epsilons: (clients,), the epsilon meant for each client; noise_stds: (clients,), the std of its noise.
    `guarantee` is the cost of publishing the rows with the least noise; models learned from them cost no
    more.
    """

    name: str
    epsilons: tuple[float, ...]
    noise_stds: tuple[float, ...]
    row_norm: float
    delta: float

    protects = (
        "every record's features are noised once, by their owner, before anything is learned from them: what "
        "anybody can tell of them, the server included, is bounded by epsilon; labels are used as they are"
    )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for records of the client with the least noise; the largest epsilon is stated."""
        epsilon = gaussian.epsilon(self.delta, self.least_multiplier)
        return Guarantee(RECORD_FEATURES, epsilon, self.delta, max(self.epsilons))

    @property
    def least_multiplier(self) -> float:
        """z of the least noise: its std over 2 row_norm."""
        return min(self.noise_stds) / (2 * self.row_norm)

    @property
    def figures(self) -> Mapping[str, float]:
        """The least noise std on rows."""
        return {"least noise std on rows": min(self.noise_stds)}

    def events(self, rounds: int) -> tuple[Event, ...]:
        """One release of the rows, for any number of rounds."""
        count("rounds", rounds)
        return (Gaussian(self.least_multiplier),)

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """Returns the rows clipped to `row_norm` and noised, with their labels."""
        rows = clip_rows(x, self.row_norm)
        together = self.row_norm * float(np.sqrt(len(rows)))
        return noised(rows.ravel(), self.noise_stds[client], together, words).reshape(x.shape), y


def row_noise(
    federation: Federation, clients_per_round: int, epsilon: float, delta: float, row_norm: float
) -> NoisyRows:
    """Builds local privacy of rows, with the same noise, exactly calibrated, for every client.

    Raises ValueError or TypeError for values that are not allowed.
    """
    noise_std = rpfl.record_noise_std(epsilon, delta, row_norm)
    return NoisyRows(
        federation=federation,
        clients_per_round=clients_per_round,
        name="row-noise",
        epsilons=federation.clients * (float(epsilon),),
        noise_stds=federation.clients * (noise_std,),
        row_norm=row_norm,
        delta=delta,
    )
