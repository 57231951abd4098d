"""The book's version of DP-FedAvg, which has no privacy."""

import math

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Gaussian, Relation
from mechanisms.servers.dp_fedavg_book import BookDPFedAvg
from mechanisms.servers.server import Federation, Step
from tests.unit.mechanisms.settings import combined, vector, words

D = 40_000
ROWS = (10, 20, 40, 80)


def book(sizes: tuple[int, ...] = (D,), **values) -> BookDPFedAvg:
    usual = {"clients_per_round": 2, "scale": 0.5, "clip_radius": 4.0, "noise_std": 0.001, "delta": 1e-5}
    return BookDPFedAvg(Federation(ROWS, 60, sizes), **{**usual, **values})


def test_the_book_s_settings_have_no_privacy():
    """z = sigma / (lambda C) = 0.001 / (0.5 * 1000) = 2e-6; 100 rounds are one release of 2e-7."""
    replay = BookDPFedAvg(Federation((5000,) * 10, 100, (4,)), 2, 0.5, 1000.0, 0.001, 1e-5)
    assert replay.noise_multiplier == pytest.approx(2e-6, rel=1e-12)
    assert replay.events(100) == (Gaussian(replay.noise_multiplier),) * 100
    assert replay.guarantee.epsilon == pytest.approx(1 / (2 * 2e-7**2), rel=1e-3), "1.25e13"
    assert replay.guarantee.unit.relation is Relation.ADD_REMOVE
    assert math.isinf(replay.guarantee.stated)
    assert "no privacy" in replay.protects
    assert "1.25e+13" in replay.protects
    assert (replay.name, replay.proximal, replay.grad_clip) == ("dp-fedavg-book", 0.0, None)
    assert len(replay.sample(10, np.random.default_rng(0))) == 2


def test_the_book_adds_a_sum_and_absolute_noise():
    """theta + lambda sum Delta + N(0, sigma^2), whatever the rows, the clip, q or W."""
    replay = book()
    ones = np.full(D, 0.01, np.float32)
    new = combined(replay, np.full(D, 1.0, np.float32), [ones, 3 * ones], [10, 80])
    assert new.mean() == pytest.approx(1.02, abs=1e-4), "1 + 0.5 * (0.01 + 0.03)"
    assert new.std() == pytest.approx(0.001, rel=0.02)
    assert combined(replay, np.zeros(D, np.float32), [], []).std() == pytest.approx(0.001, rel=0.02)
    figures = {"noise multiplier": pytest.approx(5e-4), "clip radius": 4.0, "noise std": 0.001}
    assert replay.figures == figures, "0.001 / (0.5 * 4)"


def test_the_book_clips_after_every_batch():
    start, weights = torch.zeros(2), torch.tensor([[30.0, 40.0], [1.0, 1.0]])
    assert book((2,)).after_batch(weights, start, Step(np.arange(2), 0.1)).numpy() == pytest.approx(
        np.array([[2.4, 3.2], [1, 1]])
    )
    assert book((2,)).upload(vector(30, 40), vector(0, 0), 10, words()) == pytest.approx([2.4, 3.2])


def test_what_can_not_be():
    with pytest.raises(ValueError, match="rounds = 0 is not allowed"):
        book().events(0)
    with pytest.raises(ValueError, match="NaN or an infinity"):
        book((2,)).upload(vector(math.nan, 0), vector(0, 0), 10, words())
