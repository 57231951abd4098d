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


def test_correct_rows_are_counted_by_their_true_label() -> None:
    outputs = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 9.0], [5.0, 0.0, 0.0]])
    found = by_label(outputs, torch.tensor([0, 1, 1, 2]), 4)
    assert found == {TESTED: (1.0, 2.0, 1.0, 0.0), CORRECT: (1.0, 1.0, 0.0, 0.0)}


def test_one_logit_a_row_is_a_label_too() -> None:
    found = by_label(torch.tensor([[3.0], [-3.0], [3.0]]), torch.tensor([1, 0, 0]), 2)
    assert found == {TESTED: (2.0, 1.0), CORRECT: (1.0, 1.0)}


def test_numbers_have_no_labels() -> None:
    assert by_label(torch.zeros(2, 1), torch.zeros(2), 2) == {}
    assert accuracy_facts({}, np.array([[1, 2]])) == {}


def test_a_client_is_as_accurate_as_its_labels_are_frequent() -> None:
    counts = np.array([[1, 0, 0], [0, 5, 0], [2, 2, 9], [0, 0, 3]])
    found = client_accuracies(SERIES, counts)
    assert found[:3].tolist() == pytest.approx([0.75, 0.5, 0.625]), "rows of an untested label do not count"
    assert np.isnan(found[3])
    facts = accuracy_facts(SERIES, counts)
    assert facts[WORST] == pytest.approx(0.5)
    assert facts[TENTH] == pytest.approx(np.percentile([0.75, 0.5, 0.625], 10))
    assert facts[SPREAD] == pytest.approx(np.std([0.75, 0.5, 0.625]))


def test_clients_like_all_test_rows_have_the_accuracy_of_all() -> None:
    assert client_accuracies(SERIES, np.array([[4, 2, 0], [8, 4, 0]])) == pytest.approx([4 / 6, 4 / 6])


def test_where_no_client_has_a_tested_label_there_are_no_figures() -> None:
    assert accuracy_facts(SERIES, np.array([[0, 0, 3]])) == {}
