"""Accuracy for single clients, from accuracies by label."""

import numpy as np
import pytest
import torch

from scenarios.study.client_accuracy import (
    CORRECT,
    SPREAD,
    TENTH,
    TESTED,
    WORST,
    accuracy_facts,
    by_label,
    client_accuracies,
)

SERIES = {TESTED: (4.0, 2.0, 0.0), CORRECT: (3.0, 1.0, 0.0)}
"""Label 0 is right in three of four rows, label 1 in one of two; nobody tested label 2."""


def test_correct_rows_are_counted_by_their_true_label():
    outputs = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 9.0], [5.0, 0.0, 0.0]])
    found = by_label(outputs, torch.tensor([0, 1, 1, 2]), 4)
    assert found == {TESTED: (1.0, 2.0, 1.0, 0.0), CORRECT: (1.0, 1.0, 0.0, 0.0)}
    found = by_label(torch.tensor([[3.0], [-3.0], [3.0]]), torch.tensor([1, 0, 0]), 2)
    assert found == {TESTED: (2.0, 1.0), CORRECT: (1.0, 1.0)}
    assert by_label(torch.zeros(2, 1), torch.zeros(2), 2) == {}
    assert accuracy_facts({}, np.array([[1, 2]])) == {}


def test_a_client_is_as_accurate_as_its_labels_are_frequent():
    counts = np.array([[1, 0, 0], [0, 5, 0], [2, 2, 9], [0, 0, 3]])
    found = client_accuracies(SERIES, counts)
    assert found[:3].tolist() == pytest.approx([0.75, 0.5, 0.625]), "rows of an untested label do not count"
    assert np.isnan(found[3])
    facts = accuracy_facts(SERIES, counts)
    assert facts[WORST] == pytest.approx(0.5)
    assert facts[TENTH] == pytest.approx(np.percentile([0.75, 0.5, 0.625], 10))
    assert facts[SPREAD] == pytest.approx(np.std([0.75, 0.5, 0.625]))
    assert accuracy_facts(SERIES, np.array([[0, 0, 3]])) == {}
