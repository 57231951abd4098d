"""FedProx: the loss pulls clients back to the model from which they started.

Li et al. 2020, "Federated Optimization in Heterogeneous Networks", Algorithm 2 and Section 3.2: client k
minimises F_k(w) + (mu / 2) ||w - w_t||^2. The server averages by rows, as in `fedavg`. The paper leaves open
how far a client minimises (its gamma); here it takes as many steps as the training section says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mechanisms.arguments import at_least_zero
from mechanisms.servers.server import FixedSample


@dataclass(frozen=True, slots=True)
class FedProx(FixedSample):
    """Federated averaging with a proximal term of mu = `proximal`; with 0 it is `fedavg`."""

    proximal: float = 0.01

    name = "fedprox"

    def __post_init__(self) -> None:
        FixedSample.__post_init__(self)
        at_least_zero("proximal", self.proximal)

    @property
    def figures(self) -> Mapping[str, float]:
        """mu."""
        return {"proximal mu": float(self.proximal)}
