"""Label DP: every input rule and case of the variant it replays, traps mended, exact probabilities."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, Pure
from mechanisms.labels.flips import LabelDP, MemoisedLabelDP, respond, uniform64, words_for_another
from mechanisms.noise.randomness import SeededWords, SystemWords


class Given:
    """Words that a test chooses: 64-bit values, again and again."""

    def __init__(self, *values):
        self.values = np.array(values, dtype=np.uint64)

    def fill(self, out):
        out.view(np.uint64)[:] = np.resize(self.values, len(out) // 2)


def seeded(seed=1):
    return SeededWords(np.random.default_rng(seed))


ONE_HOT = np.eye(3)[[0, 1, 2, 1, 0]]


@pytest.mark.parametrize("epsilon", [0, 0.0, 1, 1.0, 10, 10.0])
@pytest.mark.parametrize(
    "labels", [np.zeros((5, 1)), np.zeros(5), ONE_HOT], ids=["column", "flat", "one-hot"]
)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_accepted_cases_keep_their_form(epsilon, labels, kind):
    for dtype in (np.float32, np.float64, np.int64, np.uint8, np.bool_):
        given = labels.astype(dtype)
        if kind == "torch":
            given = torch.from_numpy(given)
        before = given.copy() if kind == "numpy" else given.clone()
        noisy = LabelDP(epsilon)(given)
        assert type(noisy) is type(given)
        assert (noisy.shape, noisy.dtype) == (given.shape, given.dtype)
        assert (given == before).all()
        values = np.asarray(noisy).astype(int)
        assert set(values.ravel()) <= {0, 1}
        assert labels.shape != (5, 3) or (values.sum(axis=1) == 1).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_floats_too(dtype):
    noisy = LabelDP(1.0)(torch.ones(4, dtype=dtype, requires_grad=True))
    assert noisy.dtype == dtype
    assert not noisy.requires_grad


@pytest.mark.parametrize("shape", [(0,), (0, 1), (0, 3)])
def test_no_labels_are_no_labels(shape):
    assert LabelDP(1.0, seeded())(np.zeros(shape)).shape == shape


@pytest.mark.parametrize("epsilon", ["1.0", None, True, False, np.bool_(True), [1.0], np.array([1.0]), 1j])
def test_epsilon_is_a_number(epsilon):
    with pytest.raises(TypeError, match=r"^epsilon = .* is not allowed: a number of at least 0$"):
        LabelDP(epsilon)


@pytest.mark.parametrize("epsilon", [-1.0, -1, math.nan, np.float32("nan"), -math.inf])
def test_epsilon_is_at_least_0(epsilon):
    with pytest.raises(ValueError, match=r"^epsilon = .* is not allowed: a number of at least 0$"):
        LabelDP(epsilon)


@pytest.mark.parametrize("epsilon", [100, 100.5, 1e9, 10**400, math.inf, np.float32(200)])
def test_above_100_is_taken_as_100(epsilon):
    assert LabelDP(epsilon).epsilon == 100.0
    assert LabelDP(99.5).epsilon == 99.5


@pytest.mark.parametrize(
    "labels",
    [[0, 1], (0, 1), 1, None, "01", np.array(["0"]), np.array([0, 1], dtype=object), np.zeros(2, complex)],
)
def test_labels_are_an_array_of_numbers(labels):
    with pytest.raises(TypeError, match=r"^labels of .* are not allowed: a numpy array or a torch tensor"):
        LabelDP(1.0)(labels)


def test_complex_tensors_are_refused():
    with pytest.raises(TypeError, match=r"labels of torch.complex64 are not allowed"):
        LabelDP(1.0)(torch.zeros(2, dtype=torch.complex64))


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2],
        [[1, 0, 0], [1, 1, 0]],
        np.zeros((2, 2, 1)),
        [[1, 1], [0, 0]],  # as many ones as rows
        [[0, 0], [0, 1]],
        [[2, -1], [0, 1]],
        [[0.5, 0.5]],
        [0, math.nan],
        [[math.nan], [1]],
        [[1, 0], [math.nan, 1]],
        [-1, 1],
        [[2], [0]],
        0,
        np.zeros((0, 0)),
        np.zeros((2, 0)),
        np.zeros((0, 2, 1)),
    ],
)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_other_labels_are_refused(labels, kind):
    given = np.array(labels) if kind == "numpy" else torch.tensor(np.array(labels))
    with pytest.raises(
        ValueError, match=r"^labels of shape .* not allowed: 0 and 1 in shape \(n,\) or \(n, 1\)"
    ):
        LabelDP(1.0)(given)


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 5.0, 20.0, 40.0, 44.0, 60.0, 100.0])
@pytest.mark.parametrize("classes", [2, 3, 10, 62, 1000])
def test_probabilities_keep_epsilon_exactly_and_nearly_reach_it(epsilon, classes):
    """In whole words of 2^64: kept over any other, at most e^eps; others, the formula or one word more."""
    other = words_for_another(epsilon, classes)
    kept = 2**64 - (classes - 1) * other
    assert kept >= other >= 1
    with localcontext(prec=60):
        assert Fraction(kept, other) <= Fraction(Decimal(epsilon).exp())
    formula = 1 / (classes - 1 + math.exp(epsilon))
    assert kept / 2**64 == pytest.approx(math.exp(epsilon) * formula, abs=1e-12)
    assert 2**64 * formula <= other <= 2**64 * formula * (1 + 1e-14) + 1


@pytest.mark.parametrize("classes", [2, 3, 7, 1000])
def test_at_epsilon_0_all_classes_are_alike(classes):
    other = words_for_another(0.0, classes)
    kept = 2**64 - (classes - 1) * other
    assert 0 <= kept - other < classes


def test_each_word_says_one_class():
    """The first and the last word of each class's share, at epsilon 1 and three classes."""
    share = words_for_another(1.0, 3)
    words = Given(0, share - 1, share, 2 * share - 1, 2 * share, 2**64 - 1)
    assert respond(np.full(6, 0), 3, 1.0, words).tolist() == [1, 1, 2, 2, 0, 0]
    assert respond(np.full(6, 1), 3, 1.0, words).tolist() == [0, 0, 2, 2, 1, 1]
    assert respond(np.full(6, 2), 3, 1.0, words).tolist() == [0, 0, 1, 1, 2, 2]


def test_binary_words():
    share = words_for_another(1.0, 2)
    noisy = LabelDP(1.0, Given(share - 1, share))(np.array([0, 0, 1, 1]))
    assert noisy.tolist() == [1, 0, 0, 1]


def test_words_of_64_bits_are_taken_whole():
    drawn = uniform64(1000, seeded())
    assert len(np.unique(drawn)) == 1000
    assert len(np.unique(drawn >> np.uint64(32))) > 990
    assert len(np.unique(drawn & np.uint64(2**32 - 1))) > 990


def test_one_hot_labels_become_the_drawn_class():
    share = words_for_another(2.0, 3)
    noisy = LabelDP(2.0, Given(0, share, 2**64 - 1))(np.eye(3, dtype=np.int32)[[1, 1, 1]])
    assert noisy.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_the_default_randomness_is_the_system_s():
    assert isinstance(LabelDP(1.0).words, SystemWords)
    first, second = (LabelDP(0.0)(np.zeros(200)) for _ in range(2))
    assert not np.array_equal(first, second)
    assert LabelDP(1.0) == LabelDP(1)


def test_seeded_randomness_repeats_itself():
    first, second = (LabelDP(0.0, seeded())(np.zeros(200)) for _ in range(2))
    assert np.array_equal(first, second)


def test_redrawing_composes():
    mechanism = LabelDP(1.5)
    assert mechanism.total_epsilon(1) == 1.5
    assert mechanism.total_epsilon(20) == 30.0
    assert LabelDP(1000).total_epsilon(2) == 200.0
    assert mechanism.spent(20) == Ledger.of([Pure(1.5)] * 20)
    with pytest.raises(ValueError, match="draws = 0"):
        mechanism.total_epsilon(0)
    with pytest.raises(ValueError, match="draws = 0"):
        mechanism.spent(0)


@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy])
def test_memoised_labels_are_drawn_once(form):
    labels = form(np.zeros((300, 1)))
    memoised = MemoisedLabelDP.draw(LabelDP(0.0, seeded()), labels)
    first = memoised.labels + 0
    assert type(memoised.labels) is type(labels)
    assert 0 < int(first.sum()) < 300
    rows = np.array([5, 3, 299])
    for _ in range(3):
        assert (memoised.labels == first).all()
        assert (memoised[rows] == first[rows]).all()
        assert (memoised[10:20] == first[10:20]).all()
    assert memoised.epsilon == 0.0


def test_memoised_labels_cost_one_draw():
    memoised = MemoisedLabelDP.draw(LabelDP(1.5, seeded()), np.zeros(5))
    assert memoised.spent() == Ledger.of([Pure(1.5)])


def test_memoised_labels_cannot_be_written_to():
    memoised = MemoisedLabelDP.draw(LabelDP(1.5, seeded()), np.zeros(5))
    with pytest.raises(AttributeError):
        memoised.labels = np.ones(5)
