"""The adaptive clip: rounds by hand, the quantile it follows, its noise, and Theorem 1."""

import math
from typing import Any

import numpy as np
import pytest

from mechanisms.accounting.ledger import Gaussian, Ledger, SampledGaussian, privacy_spent
from mechanisms.servers.adaptive_clip import AdaptiveClip, ClipState, adaptive_clip
from mechanisms.servers.server import Federation, Trained, Upload
from tests.unit.mechanisms.settings import refused, vector, words

QUIET: dict[str, Any] = {"sampling_probability": 1.0, "noise_multiplier": 0.0, "delta": 1e-5}


def made(clients: int = 2, d: int = 2, rounds: int = 5, **values: Any) -> AdaptiveClip:
    return adaptive_clip(Federation((1,) * clients, rounds, (d,)), **{**QUIET, **values})


def uploads(server: AdaptiveClip, state: ClipState, updates: list[np.ndarray]) -> list[Upload]:
    """What clients send that moved by these updates (d,)."""
    found = []
    for client, update in enumerate(updates):
        start, told = np.zeros_like(update), server.told(state)
        ended = Trained(client, update, start, 1, 3, 0.1, told, vector())
        found.append(Upload(client, 1, server.send(ended, words(client)).vector))
    return found


def test_two_rounds_by_hand() -> None:
    """C = 2, gamma 1/4, eta_C = 1/2; updates (3, 4) and (0, 1): clipped to (1.2, 1.6) and as it is.

    b = 0 and 1: C <- 2 exp(-(1/2 - 1/4) / 2) = 2 exp(-1/8). The same again: D is ((0.6, 0.8) C + (0, 1)) / 2.
    """
    server = made(quantile=0.25, clip_learning_rate=0.5, start_clip=2.0, learning_rate=0.5, momentum=0.5)
    state, model = server.start(), vector(10, 20)
    sent = uploads(server, state, [vector(3, 4), vector(0, 1)])
    assert sent[0].vector == pytest.approx([1.2, 1.6, 0], rel=1e-6)
    assert sent[1].vector.tolist() == [0, 1, 1]
    (edge,) = uploads(server, server.start(), [vector(0, 2)])
    assert edge.vector == pytest.approx([0, 2, 1], rel=1e-6), "of the clip's length: within"
    model, state = server.combine(model, state, sent, words())
    assert model == pytest.approx([10.3, 20.65], rel=1e-5)
    clip = 2 * math.exp(-0.125)
    assert state.clip == pytest.approx(clip)
    model, state = server.combine(model, state, uploads(server, state, [vector(3, 4), vector(0, 1)]), words())
    velocity = 0.5 * np.array([0.6, 1.3]) + (np.array([0.6, 0.8]) * clip + np.array([0, 1])) / 2
    assert state.velocity == pytest.approx(velocity, rel=1e-5)
    assert model == pytest.approx(np.array([10.3, 20.65]) + 0.5 * velocity, rel=1e-5)
    assert server.state_figures(state) == {"last clip radius": state.clip}
    assert server.told(state).tolist() == [state.clip], "as the clients are told it, bit for bit"


@pytest.mark.parametrize("quantile", [0.5, 0.9])
@pytest.mark.parametrize("start_clip", [0.1, 30.0])
def test_the_clip_converges_to_the_quantile_of_the_norms(quantile: float, start_clip: float) -> None:
    """Andrew et al. 2021, Figure 1: whatever the first C is."""
    norms = np.exp(np.random.default_rng(7).normal(0.5, 0.4, 41))
    server = made(41, quantile=quantile, start_clip=start_clip)
    state = server.start()
    for _ in range(300):
        sent = uploads(server, state, [vector(size, 0) for size in norms])
        _, state = server.combine(vector(0, 0), state, sent, words())
    assert state.clip == pytest.approx(np.quantile(norms, quantile), rel=0.05)


def test_the_clip_stays_a_number_where_nobody_ever_learns() -> None:
    server = made(1, clip_learning_rate=100.0)
    state = server.start()
    for _ in range(4):
        _, state = server.combine(vector(0, 0), state, uploads(server, state, [vector(0, 0)]), words())
    assert state.clip == 2.0**-60
    for _ in range(8):
        sent = [Upload(0, 1, vector(0, 0, 0))]
        _, state = server.combine(vector(0, 0), state, sent, words())
    assert state.clip == 2.0**60


def test_both_releases_together_cost_what_theorem_1_says() -> None:
    """At q = 1: a release of z_D and one of sigma_b / (1/2), a round, as a ledger counts them."""
    server = made(40, rounds=7, noise_multiplier=1.3, count_noise_std=1.1)
    both = Ledger(((Gaussian(server.update_noise_multiplier), 7), (Gaussian(1.1 / 0.5), 7)))
    assert server.guarantee is not None
    assert server.guarantee.epsilon == pytest.approx(privacy_spent(both, 1e-5).epsilon, rel=1e-9)
    assert server.update_noise_multiplier == pytest.approx((1.3**-2 - 2.2**-2) ** -0.5)
    assert server.update_noise_multiplier > 1.3


def test_a_sampled_round_costs_as_much_as_one_of_dp_fedavg() -> None:
    server = made(40, rounds=7, sampling_probability=0.25, noise_multiplier=0.9)
    assert server.events(7) == (SampledGaussian(0.9, 0.25, 7),)
    assert server.count_noise_std == pytest.approx(0.5), "m / 20"
    rng = np.random.default_rng(8)
    assert np.mean([len(server.sample(40, rng)) for _ in range(300)]) == pytest.approx(10, abs=0.8)
    assert server.guarantee is not None
    assert server.guarantee.epsilon == privacy_spent(Ledger.of(server.events(7)), 1e-5).epsilon
    assert "bounded by epsilon" in server.protects
    assert made().guarantee is None
    assert "no epsilon" in made().protects
    names = ("noise multiplier", "noise multiplier of updates", "noise std of the count")
    assert made().figures == dict.fromkeys(names, 0.0)


@pytest.mark.parametrize("size", [0.3, 50.0])
def test_a_user_more_moves_the_sums_by_no_more_than_the_clip_and_a_half(size: float) -> None:
    """The sensitivities on which Theorem 1 rests; the expected number m divides, whoever is there."""
    server = made(9, 3, start_clip=2.0, clip_learning_rate=1.0)
    state, m = server.start(), server.expected_users
    some = [vector(1, 0, 0), vector(0, 9, 0), vector(1, 1, 1)]
    one, other = (
        server.combine(vector(0, 0, 0), state, uploads(server, state, sent), words())
        for sent in (some, [*some, vector(0, 0, size)])
    )
    moved = np.linalg.norm((other[0] - one[0]).astype(np.float64)) * m
    assert moved == pytest.approx(min(size, 2.0), rel=1e-4)
    assert abs(math.log(other[1].clip / one[1].clip)) * m == pytest.approx(0.5, rel=1e-5)


def test_the_noise_of_the_model_is_that_of_z_d_and_the_clip() -> None:
    d = 20_000
    server = made(40, d, sampling_probability=0.5, noise_multiplier=1.0, count_noise_std=1.0, start_clip=3.0)
    new, _ = server.combine(np.zeros(d, np.float32), server.start(), [], words())
    assert server.update_noise_multiplier == pytest.approx(math.sqrt(4 / 3))
    assert new.std() == pytest.approx(math.sqrt(4 / 3) * 3 / 20, rel=0.03), "z_D C / m, with nobody there"
    assert abs(new.mean()) < 5 * new.std() / math.sqrt(d)


def test_the_noise_of_the_count_is_sigma_b() -> None:
    """ln C moves by eta_C (gamma - b'), where b' has noise of sigma_b / m around 1/2 for an empty sample."""
    server = made(40, sampling_probability=0.5, noise_multiplier=1.0, count_noise_std=2.0, quantile=0.4)
    start = server.start()
    clips = [server.combine(vector(0, 0), start, [], words(seed))[1].clip for seed in range(2000)]
    moves = np.log(np.array(clips) / start.clip)
    assert moves.std() == pytest.approx(0.2 * 2.0 / 20, rel=0.08)
    assert moves.mean() == pytest.approx(-0.2 * 0.1, abs=5 * 0.02 / math.sqrt(2000))


def test_what_can_not_be() -> None:
    refused(made, sampling_probability=0.0, delta=0.0)
    said = r"count_noise_std = 0\.5 is not allowed: above noise_multiplier / 2 = 0\.5; raise it, or lower"
    with pytest.raises(ValueError, match=said):
        made(noise_multiplier=1.0, count_noise_std=0.5)
    with pytest.raises(ValueError, match=r"count_noise_std = 0\.1 is not allowed"):
        made(noise_multiplier=1.0)
