"""Noise on rows, drawn once: how much, on what, and what it truly gives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Ledger, spent
from mechanisms.servers.row_noise import NoisyRows, row_noise
from mechanisms.servers.server import Federation
from tests.unit.mechanisms.settings import words

FEDERATION = Federation((5, 7, 9), 4, (3, 1))


def made(epsilon: float = 1.0, delta: float = 1e-5, row_norm: float = 2.0) -> NoisyRows:
    return row_noise(FEDERATION, 2, epsilon, delta, row_norm)


def rows(n: int, norm: float) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((n, 2, 3))
    return (norm * x / np.linalg.norm(x.reshape(n, -1), axis=1)[:, None, None]).astype(np.float32)


def test_the_noise_is_that_of_two_rows_of_full_length_and_its_epsilon_is_the_stated() -> None:
    mechanism = made(epsilon=3.0, row_norm=0.5)
    assert mechanism.noise_stds == pytest.approx([2 * 0.5 * gaussian.noise_multiplier(3.0, 1e-5)] * 3)
    assert mechanism.guarantee.epsilon == pytest.approx(3.0, rel=1e-9)
    assert mechanism.guarantee.stated == 3.0
    assert "features" in mechanism.guarantee.unit.words


@pytest.mark.parametrize("rounds", [1, 50])
def test_it_is_charged_once_however_many_the_rounds(rounds: int) -> None:
    mechanism = made(epsilon=3.0)
    assert spent(Ledger.of(mechanism.events(rounds)), 1e-5).epsilon == pytest.approx(3.0, rel=1e-9)
    with pytest.raises(ValueError, match="rounds"):
        mechanism.events(0)


def test_rows_are_noised_labels_are_not_and_nothing_is_changed_in_place() -> None:
    mechanism, x, y = made(), rows(4000, 2.0), np.arange(4000)
    before = x.copy()
    noisy, labels = mechanism.examples(x, y, 1, words())
    assert labels is y
    np.testing.assert_array_equal(x, before)
    assert (noisy.shape, noisy.dtype) == (x.shape, np.float32)
    away = (noisy - x).ravel() / mechanism.noise_stds[1]
    assert stats.kstest(away, "norm").pvalue > 1e-3


def test_a_longer_row_is_cut_to_the_norm_first() -> None:
    """Else the noise would be too little for it."""
    mechanism, y = made(epsilon=1e9), np.zeros(300, np.int64)
    noisy, _ = mechanism.examples(rows(300, 50.0), y, 0, words())
    assert mechanism.noise_stds[0] < 1e-3
    assert np.linalg.norm(noisy.reshape(300, -1), axis=1) == pytest.approx(np.full(300, 2.0), abs=0.01)


def test_another_draw_has_other_noise() -> None:
    x, y = rows(3, 1.0), np.zeros(3, np.int64)
    first, again, other = (made().examples(x, y, 0, words(seed))[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_it_says_of_itself() -> None:
    mechanism = made()
    assert mechanism.name == "row-noise"
    assert "once" in mechanism.protects
    assert mechanism.figures == {"least noise std on rows": mechanism.noise_stds[0]}
    assert mechanism.sample(3, np.random.default_rng(0)).shape == (2,)


def test_the_guarantee_is_of_the_client_with_the_least_noise() -> None:
    mixed = NoisyRows(FEDERATION, 2, "mixed", (1.0, 2.0, 3.0), (4.0, 2.0, 8.0), 1.0, 1e-5)
    assert mixed.guarantee.epsilon == pytest.approx(gaussian.epsilon(1e-5, 2.0 / 2))
    assert mixed.guarantee.stated == 3.0
    assert spent(Ledger.of(mixed.events(9)), 1e-5).epsilon == pytest.approx(mixed.guarantee.epsilon)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clients_per_round": 4}, "clients_per_round = 4"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"row_norm": 0.0}, "row_norm"),
    ],
)
def test_what_can_not_be_is_refused(change: dict[str, float], said: str) -> None:
    given = {"clients_per_round": 2, "epsilon": 1.0, "delta": 1e-5, "row_norm": 1.0}
    with pytest.raises(ValueError, match=said):
        row_noise(FEDERATION, **{**given, **change})  # type: ignore[arg-type]
