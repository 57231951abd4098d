"""Label DP: every input rule and case of the variant it replays, traps mended, exact probabilities."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, Pure
from mechanisms.labels.flips import LabelDP, MemoisedLabelDP, respond, words_for_another
from mechanisms.noise.randomness import SystemWords
from tests.unit.mechanisms.settings import Given, words

ONE_HOT = np.eye(3)[[0, 1, 2, 1, 0]]


@pytest.mark.parametrize("epsilon", [0, 1.0, 10])
@pytest.mark.parametrize("labels", [np.zeros((5, 1)), np.zeros(5), ONE_HOT, np.zeros(0), np.zeros((0, 3))])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_accepted_cases_keep_their_form(epsilon, labels, kind):
    for dtype in (np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_):
        given = labels.astype(dtype)
        if kind == "torch":
            given = torch.from_numpy(given)
        before = given + 0
        noisy = LabelDP(epsilon)(given)
        assert type(noisy) is type(given)
        assert (noisy.shape, noisy.dtype) == (given.shape, given.dtype)
        assert (given == before).all()
        values = np.asarray(noisy).astype(int)
        assert set(values.ravel()) <= {0, 1}
        assert labels.shape != (5, 3) or (values.sum(axis=1) == 1).all()
    short = LabelDP(1.0)(torch.ones(4, dtype=torch.bfloat16, requires_grad=True))
    assert (short.dtype, short.requires_grad) == (torch.bfloat16, False)


@pytest.mark.parametrize(
    ("error", "epsilons"),
    [
        (TypeError, ["1.0", None, True, False, np.bool_(True), [1.0], np.array([1.0]), 1j]),
        (ValueError, [-1.0, -1, math.nan, np.float32("nan"), -math.inf]),
    ],
)
def test_epsilon_is_a_number_of_at_least_0(error, epsilons):
    for epsilon in epsilons:
        with pytest.raises(error, match=r"^epsilon = .* is not allowed: a number of at least 0$"):
            LabelDP(epsilon)


def test_above_100_is_taken_as_100():
    assert {LabelDP(epsilon).epsilon for epsilon in (100, 1e9, 10**400, math.inf, np.float32(200))} == {100.0}
    assert LabelDP(99.5).epsilon == 99.5


OBJECTS = np.array([0, 1], dtype=object)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1],
        1,
        None,
        "01",
        np.array(["0"]),
        OBJECTS,
        np.zeros(2, complex),
        torch.zeros(2).to(torch.complex64),
    ],
)
def test_labels_are_an_array_of_numbers(labels):
    with pytest.raises(TypeError, match=r"^labels of .* are not allowed: a numpy array or a torch tensor"):
        LabelDP(1.0)(labels)


OTHERS = ([0, 1, 2], [[1, 0, 0], [1, 1, 0]], np.zeros((2, 2, 1)), [[1, 1], [0, 0]], [[0, 0], [0, 1]],
          [[2, -1], [0, 1]], [[0.5, 0.5]], [0, math.nan], [[math.nan], [1]], [[1, 0], [math.nan, 1]], [-1, 1],
          [[2], [0]], 0, np.zeros((0, 0)), np.zeros((2, 0)), np.zeros((0, 2, 1)))  # fmt: skip


@pytest.mark.parametrize("labels", OTHERS)
def test_other_labels_are_refused(labels):
    given = np.array(labels)
    for form in (given, torch.tensor(given)):
        with pytest.raises(ValueError, match=r"^labels of shape .*: 0 and 1 in shape \(n,\) or \(n, 1\)"):
            LabelDP(1.0)(form)


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
    even = words_for_another(0.0, classes)
    assert 0 <= 2**64 - classes * even < classes, "at epsilon 0 all classes are alike"


@pytest.mark.parametrize(
    ("label", "said"), [(0, [1, 1, 2, 2, 0, 0]), (1, [0, 0, 2, 2, 1, 1]), (2, [0, 0, 1, 1, 2, 2])]
)
def test_each_word_says_one_class(label, said):
    """The first and the last word of each class's share, at epsilon 1 and three classes."""
    share = words_for_another(1.0, 3)
    given = Given(0, share - 1, share, 2 * share - 1, 2 * share, 2**64 - 1)
    assert respond(np.full(6, label), 3, 1.0, given).tolist() == said


def test_labels_become_the_drawn_class():
    share = words_for_another(2.0, 3)
    noisy = LabelDP(2.0, Given(0, share, 2**64 - 1))(np.eye(3, dtype=np.int32)[[1, 1, 1]])
    assert noisy.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    share = words_for_another(1.0, 2)
    assert LabelDP(1.0, Given(share - 1, share))(np.array([0, 0, 1, 1])).tolist() == [1, 0, 0, 1]


def test_the_default_randomness_is_the_system_s_and_a_seed_s_repeats():
    assert isinstance(LabelDP(1.0).words, SystemWords)
    first, second = (LabelDP(0.0)(np.zeros(200)) for _ in range(2))
    assert not np.array_equal(first, second)
    assert LabelDP(1.0) == LabelDP(1)
    first, second = (LabelDP(0.0, words(1))(np.zeros(200)) for _ in range(2))
    assert np.array_equal(first, second)


def test_redrawing_composes():
    mechanism = LabelDP(1.5)
    assert (mechanism.total_epsilon(1), mechanism.total_epsilon(20)) == (1.5, 30.0)
    assert LabelDP(1000).total_epsilon(2) == 200.0
    assert mechanism.ledger(20) == Ledger.of([Pure(1.5)] * 20)
    for call in (mechanism.total_epsilon, mechanism.ledger):
        with pytest.raises(ValueError, match="draws = 0"):
            call(0)


@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy])
def test_memoised_labels_are_drawn_once_and_cannot_be_written_to(form):
    labels = form(np.zeros((300, 1)))
    memoised = MemoisedLabelDP.draw(LabelDP(0.5, words(1)), labels)
    first = memoised.labels + 0
    assert type(memoised.labels) is type(labels)
    assert 0 < int(first.sum()) < 300
    rows = np.array([5, 3, 299])
    for _ in range(3):
        assert (memoised.labels == first).all()
        assert (memoised[rows] == first[rows]).all()
        assert (memoised[10:20] == first[10:20]).all()
    assert memoised.epsilon == 0.5
    assert memoised.ledger() == Ledger.of([Pure(0.5)])
    with pytest.raises(AttributeError):
        memoised.labels = labels
