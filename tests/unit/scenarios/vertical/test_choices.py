"""What protects labels and outputs: drawn once or afresh, what is refused, and what each truly costs."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from mechanisms.noise.randomness import SeededWords
from node.system.errors import ConfigError
from scenarios.vertical.choices import (
    LABEL_DP,
    NOTHING,
    ONE_EMBEDDING,
    ONE_LABEL,
    EmbeddingChoice,
    LabelChoice,
    protect_of,
)

LABELS = np.random.default_rng(0).integers(0, 2, 4000).astype(np.float64)
ROWS = np.arange(0, 4000, 2)
HALVING = "tests.own_labels:Halving"


def words(seed: int = 0) -> SeededWords:
    return SeededWords(np.random.default_rng(seed))


def choice(epsilon: float, redrawn: bool) -> LabelChoice:
    return LabelChoice(LABEL_DP, {"epsilon": epsilon}, redrawn)


def test_labels_are_drawn_once_or_flipped_afresh_from_the_true_ones():
    source = choice(1.0, False).source(choice(1.0, False).make(words()), LABELS)
    first, again = source[ROWS], source[ROWS]
    assert np.array_equal(first, again)
    assert np.array_equal(source[ROWS[::-1]], first[::-1])
    assert (first != LABELS[ROWS]).mean() == pytest.approx(1 / (1 + math.e), abs=0.03)
    source = choice(1.0, True).source(choice(1.0, True).make(words()), LABELS)
    read = np.array([source[ROWS] for _ in range(40)])
    assert not np.array_equal(read[0], read[1])
    assert ((read.mean(axis=0) > 0.5) == LABELS[ROWS]).mean() > 0.99
    assert (read != LABELS[ROWS]).mean() == pytest.approx(1 / (1 + math.e), abs=0.01)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 5.0])
def test_redrawn_flips_spend_their_epsilon_once_an_epoch(epsilon: float) -> None:
    once, afresh = (choice(epsilon, redrawn).facts(12) for redrawn in (False, True))
    assert (once["stated"], once["epsilon"], once["draws of a label"]) == (epsilon, epsilon, 1)
    assert (afresh["stated"], afresh["epsilon"], afresh["draws of a label"]) == (epsilon, 12 * epsilon, 12)
    for facts in (once, afresh):
        assert (facts["delta"], facts["unit"]) == (0.0, ONE_LABEL)
        assert "true labels" in str(facts["outside"])
        at_delta, pure = facts["epsilon at delta 1e-05"], facts["epsilon"]
        assert at_delta <= pure
    assert "the label of one example" in ONE_LABEL
    assert "replace" in ONE_LABEL


def test_signs_cost_half_their_epsilon_a_coordinate_anew_in_every_epoch_and_without_noise_none():
    facts = EmbeddingChoice(3.0).facts(12)
    assert facts["epsilon of one release"] == 2 * 3.0 / 2
    assert facts["epsilon"] == 12 * 3.0
    assert facts["unit"] == ONE_EMBEDDING
    assert "labels" in str(facts["outside"])
    facts = EmbeddingChoice(None).facts(12)
    assert [facts[name] for name in ("epsilon", "delta", "unit", "epsilon of one release")] == [None] * 4
    assert NOTHING["epsilon"] is None
    assert NOTHING["unit"] is None


def test_noisy_signs_are_0_and_1_and_true_labels_are_not_changed():
    outputs = torch.tensor([[-1.0, 2.0], [0.5, -0.5]])
    assert protect_of(None, words())(outputs) is outputs
    assert torch.equal(protect_of(EmbeddingChoice(None), words())(outputs), (outputs > 0).float())
    noisy = protect_of(EmbeddingChoice(1.0), words())(torch.ones(4000, 2))
    assert noisy.mean().item() == pytest.approx(1 / (1 + math.exp(-0.5)), abs=0.02)
    before = LABELS.copy()
    for redrawn in (False, True):
        choice(0.0, redrawn).source(choice(0.0, redrawn).make(words()), LABELS)[ROWS]
    assert np.array_equal(LABELS, before)


def test_a_class_of_one_s_own_is_called_with_words_and_parameters_and_no_epsilon_is_told():
    own = LabelChoice(HALVING, {"share": 0.25})
    source = own.source(own.make(words()), LABELS)
    assert np.array_equal(source[ROWS], 0.25 * LABELS[ROWS])
    for path, parameters in ((HALVING, {"share": 0.25}), ("tests.own_labels:Boasting", {"epsilon": 0.1})):
        facts = LabelChoice(path, parameters).facts(12)
        assert (facts["epsilon"], facts["stated"], facts["unit"]) == (None, None, None)
        assert facts["protects"] == "labels, flipped once"


@pytest.mark.parametrize(
    ("path", "parameters", "said"),
    [
        ("nowhere.at:All", {}, "'nowhere.at:All' cannot be imported"),
        ("tests.own_labels:HALF", {}, "'tests.own_labels:HALF' is not a class"),
        (HALVING, {}, "cannot be made with words and {}: .*'share'"),
        (HALVING, {"shore": 1}, "cannot be made with words and {'shore': 1}: .*'shore'"),
        (LABEL_DP, {"epsilon": -1.0}, r"cannot be made with words and {'epsilon': -1.0}: epsilon = -1\.0"),
        (LABEL_DP, {"epsilon": "1.0"}, "cannot be made with words and .*: epsilon"),
        ("tests.own_labels:Stuck", {}, "'tests.own_labels:Stuck': the scales are stuck"),
        (HALVING, {"share": 2.0}, r"gave \[0.0, 2.0, 2.0, 0.0\] for the labels .*; allowed: as many numbers"),
        ("tests.own_labels:Short", {}, r"gave \[0.0, 1.0, 1.0\] for the labels .* numbers from 0 to 1"),
    ],
)
def test_what_can_not_be_used_is_one_line(path: str, parameters: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        LabelChoice(path, parameters).make(words())
    assert "\n" not in str(caught.value)
