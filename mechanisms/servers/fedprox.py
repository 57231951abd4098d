"""FedProx: the loss pulls clients back to the model from which they started.

Li et al. 2020, "Federated Optimization in Heterogeneous Networks", Algorithm 2 and Section 3.2: client k
minimises F_k(w) + (mu / 2) ||w - w_t||^2. The server averages by rows, as in `fedavg`. The paper leaves open
how far a client minimises (its gamma); here it takes as many steps as the training section says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mechanisms.arguments import at_least_zero
from mechanisms.servers.server import ALL_AT_STAKE, Averaging, Federation, Indices, client_count, fixed_sample


@dataclass(frozen=True, slots=True)
class FedProx(Averaging):
    """Federated averaging with a proximal term of mu = `proximal`; with 0 it is `fedavg`."""

    federation: Federation
    clients_per_round: int
    proximal: float = 0.01

    def __post_init__(self) -> None:
        client_count("clients_per_round", self.clients_per_round, self.federation)
        at_least_zero("proximal", self.proximal)

    @property
    def name(self) -> str:
        """The name in results."""
        return "fedprox"

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return ALL_AT_STAKE

    @property
    def grad_clip(self) -> float | None:
        """None: gradients are not clipped."""
        return None

    @property
    def figures(self) -> Mapping[str, float]:
        """mu."""
        return {"proximal mu": float(self.proximal)}

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """Samples `clients_per_round` of them."""
        return fixed_sample(clients, self.clients_per_round, rng)
