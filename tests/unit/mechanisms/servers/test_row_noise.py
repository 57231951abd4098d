"""Noise on rows, drawn once: how much, on what, and what it truly gives."""

import numpy as np
import pytest
from scipy import stats

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Ledger, privacy_spent
from mechanisms.servers.row_noise import NoisyRows, row_noise
from mechanisms.servers.server import Federation
from tests.unit.mechanisms.settings import refused, words

FEDERATION = Federation((5, 7, 9), 4, (3, 1))


def made(epsilon: float = 1.0, delta: float = 1e-5, row_norm: float = 2.0, clients: int = 2) -> NoisyRows:
    return row_noise(FEDERATION, clients, epsilon, delta, row_norm)


def rows(n: int, norm: float) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((n, 2, 3))
    return (norm * x / np.linalg.norm(x.reshape(n, -1), axis=1)[:, None, None]).astype(np.float32)


def test_the_noise_is_that_of_two_rows_of_full_length_and_its_epsilon_is_the_stated() -> None:
    mechanism = made(epsilon=3.0, row_norm=0.5)
    assert mechanism.noise_stds == pytest.approx([2 * 0.5 * gaussian.noise_multiplier(3.0, 1e-5)] * 3)
    assert mechanism.guarantee.epsilon == pytest.approx(3.0, rel=1e-9)
    assert mechanism.guarantee.stated == 3.0
    assert "features" in mechanism.guarantee.unit.words
    for rounds in (1, 50):
        charged = privacy_spent(Ledger.of(mechanism.events(rounds)), 1e-5).epsilon
        assert charged == pytest.approx(3.0, rel=1e-9), "once, however many the rounds"
    assert mechanism.name == "row-noise"
    assert "once" in mechanism.protects
    assert mechanism.figures == {"least noise std on rows": mechanism.noise_stds[0]}
    assert mechanism.sample(3, np.random.default_rng(0)).shape == (2,)


def test_rows_are_noised_labels_are_not_and_nothing_is_changed_in_place() -> None:
    mechanism, x, y = made(), rows(4000, 2.0), np.arange(4000)
    before = x.copy()
    noisy, labels = mechanism.examples(x, y, 1, words())
    assert labels is y
    np.testing.assert_array_equal(x, before)
    assert (noisy.shape, noisy.dtype) == (x.shape, np.float32)
    away = (noisy - x).ravel() / mechanism.noise_stds[1]
    assert stats.kstest(away, "norm").pvalue > 1e-3
    again, other = (mechanism.examples(x, y, 1, words(seed))[0] for seed in (0, 1))
    assert np.array_equal(noisy, again)
    assert not np.array_equal(noisy, other)


def test_a_longer_row_is_cut_to_the_norm_first() -> None:
    """Else the noise would be too little for it."""
    mechanism, y = made(epsilon=1e9), np.zeros(300, np.int64)
    noisy, _ = mechanism.examples(rows(300, 50.0), y, 0, words())
    assert mechanism.noise_stds[0] < 1e-3
    assert np.linalg.norm(noisy.reshape(300, -1), axis=1) == pytest.approx(np.full(300, 2.0), abs=0.01)


def test_the_guarantee_is_of_the_client_with_the_least_noise() -> None:
    mixed = NoisyRows(FEDERATION, 2, "mixed", (1.0, 2.0, 3.0), (4.0, 2.0, 8.0), 1.0, 1e-5)
    assert mixed.guarantee.epsilon == pytest.approx(gaussian.epsilon(1e-5, 2.0 / 2))
    assert mixed.guarantee.stated == 3.0
    assert privacy_spent(Ledger.of(mixed.events(9)), 1e-5).epsilon == pytest.approx(mixed.guarantee.epsilon)


def test_what_can_not_be_is_refused() -> None:
    refused(made, delta=0.0)
    refused(made().events, rounds=0)
