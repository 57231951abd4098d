"""DP-FedAvg for a stated epsilon: the least noise that keeps it."""

from __future__ import annotations

import dataclasses

import pytest

from mechanisms.registry import SERVER_MECHANISMS
from mechanisms.servers.dp_fedavg import DPFedAvg, dp_fedavg_within
from mechanisms.servers.server import Federation

OTHERS = {"clip": 0.5, "per_layer": False, "estimator": "fixed", "weight_cap": 1.0, "delta": 1e-5}


def made(epsilon: float, rounds: int, q: float) -> DPFedAvg:
    return dp_fedavg_within(Federation((5,) * 10, rounds, (4, 2)), epsilon, q, **OTHERS)  # type: ignore[arg-type]


@pytest.mark.parametrize(("epsilon", "rounds", "q"), [(1.0, 20, 1.0), (30.0, 5, 1.0), (4.0, 10, 0.3)])
def test_it_spends_what_is_stated_and_less_noise_would_spend_more(
    epsilon: float, rounds: int, q: float
) -> None:
    mechanism = made(epsilon, rounds, q)
    guarantee = mechanism.guarantee
    assert guarantee is not None
    assert 0.97 * epsilon <= guarantee.epsilon <= epsilon * (1 + 1e-9)
    louder = dataclasses.replace(mechanism, noise_multiplier=mechanism.noise_multiplier * 0.97)
    assert louder.guarantee is not None
    assert louder.guarantee.epsilon > epsilon


def test_all_else_is_the_algorithm_s() -> None:
    mechanism = made(3.0, 4, 1.0)
    plain = SERVER_MECHANISMS["dp-fedavg"](
        mechanism.federation,
        sampling_probability=1.0,
        noise_multiplier=mechanism.noise_multiplier,
        **OTHERS,
    )
    assert mechanism == plain
    assert SERVER_MECHANISMS["dp-fedavg-within"] is dp_fedavg_within


def test_an_impossible_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        made(-1.0, 4, 1.0)
