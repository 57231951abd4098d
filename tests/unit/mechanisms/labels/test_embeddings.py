"""Embedding DP: signs, how they are flipped, and what the coordinates cost together."""

import math

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, Pure
from mechanisms.labels.embeddings import EmbeddingDP
from mechanisms.labels.flips import words_for_another
from mechanisms.noise.randomness import SystemWords
from tests.unit.mechanisms.settings import Given, words


@pytest.mark.parametrize("form", [np.array, torch.tensor])
def test_without_epsilon_the_signs_come_out(form):
    given = form([-4, 1.3, -0.02, 32, 0])
    signs = EmbeddingDP(None)(given)
    assert signs.tolist() == [0, 1, 0, 1, 0]
    assert type(signs) is type(given)
    assert signs.dtype == given.dtype


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_forms_are_kept(shape, dtype):
    given = np.ones(shape, dtype=dtype)
    for mechanism in (EmbeddingDP(None), EmbeddingDP(1.0, words()), EmbeddingDP(0, words())):
        noisy = mechanism(given)
        assert (noisy.shape, noisy.dtype) == (given.shape, given.dtype)
        assert set(noisy.ravel().tolist()) <= {0, 1}
        assert (given == 1).all()


def test_a_sign_is_flipped_with_half_of_epsilon():
    share = words_for_another(0.5, 2)
    assert share / 2**64 == pytest.approx(1 - math.exp(0.5) / (math.exp(0.5) + 1))
    mechanism = EmbeddingDP(1.0, Given(share - 1, share))
    assert mechanism(np.array([[-1.0, -1.0], [2.0, 2.0]])).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("epsilon", "error"),
    [("1.0", TypeError), (True, TypeError), ([1.0], TypeError), (-1.0, ValueError), (math.nan, ValueError)],
)
def test_epsilon_is_a_number_of_at_least_0_or_none(epsilon, error):
    with pytest.raises(error, match="epsilon"):
        EmbeddingDP(epsilon)


@pytest.mark.parametrize("embeddings", [[1.0], 1.0, None, np.array(["a"]), np.zeros(2, complex)])
def test_embeddings_are_an_array_of_numbers(embeddings):
    with pytest.raises(TypeError, match="embeddings"):
        EmbeddingDP(1.0)(embeddings)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("epsilon", [None, 1.0])
@pytest.mark.parametrize("form", [np.array, torch.tensor])
def test_embeddings_are_finite(value, epsilon, form):
    with pytest.raises(ValueError, match="embeddings with NaN or infinity"):
        EmbeddingDP(epsilon)(form([0.0, value]))


def test_what_it_costs():
    assert EmbeddingDP(1e6).epsilon == 100.0
    assert EmbeddingDP(1.0).coordinate_epsilon == 0.5
    assert [EmbeddingDP(1.0).total_epsilon(coordinates) for coordinates in (2, 128)] == [1.0, 64.0]
    assert EmbeddingDP(1.0).ledger(128) == Ledger.of([Pure(64.0)])
    assert EmbeddingDP(None).coordinate_epsilon == EmbeddingDP(None).total_epsilon(3) == math.inf
    with pytest.raises(ValueError, match="coordinates = 0"):
        EmbeddingDP(1.0).total_epsilon(0)
    with pytest.raises(ValueError, match="epsilon = None"):
        EmbeddingDP(None).ledger(3)


def test_the_default_randomness_is_the_system_s():
    assert isinstance(EmbeddingDP(1.0).words, SystemWords)
    assert not np.array_equal(*(EmbeddingDP(0.0)(np.zeros(200)) for _ in range(2)))
