"""DP-FedAvg for a budget: the noise that a stated epsilon asks for, over the federation's rounds.

Unit of privacy, neighbours and norm are those of `mechanisms.servers.dp_fedavg`.
"""

from __future__ import annotations

from mechanisms.accounting.ledger import sampled_noise_multiplier
from mechanisms.servers.dp_fedavg import DPFedAvg, dp_fedavg
from mechanisms.servers.server import Federation


def dp_fedavg_within(
    federation: Federation,
    epsilon: float,
    sampling_probability: float,
    clip: float,
    per_layer: bool,
    estimator: str,
    weight_cap: float,
    delta: float,
) -> DPFedAvg:
    """The algorithm with the least z for which all rounds together are (epsilon, delta)-private.

    z is found by the accountant (mechanisms.accounting.ledger.sampled_noise_multiplier): what is spent is at
    most `epsilon`. The other arguments are those of `mechanisms.servers.dp_fedavg.dp_fedavg`. ValueError or
    TypeError.
    """
    noise_multiplier = sampled_noise_multiplier(epsilon, delta, sampling_probability, federation.rounds)
    return dp_fedavg(
        federation=federation,
        sampling_probability=sampling_probability,
        noise_multiplier=noise_multiplier,
        clip=clip,
        per_layer=per_layer,
        estimator=estimator,
        weight_cap=weight_cap,
        delta=delta,
    )
