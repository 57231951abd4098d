"""Figures class by class: recall, ROC curve and calibration, by hand."""

import pytest
import torch

from node.training.figures.class_figures import (
    FALSE_ALARMS,
    MOST_CLASSES,
    MOST_CURVES,
    class_figures,
    figures_by_class,
)


def logits(*seconds):
    """Returns one logit a row, of the second of two classes with these probabilities."""
    return torch.logit(torch.tensor(seconds, dtype=torch.float64))


def test_two_classes_have_the_curve_and_the_calibration_of_the_second():
    found = figures_by_class(
        logits(0.9, 0.8, 0.7, 0.2, 0.1), torch.tensor([1, 0, 1, 1, 0]), torch.tensor([0, 0, 1]), ("no", "yes")
    )
    no, yes = found.classes
    assert (no.name, no.trained_on, no.held_back, no.recall, no.given, no.roc) == ("no", 2, 2, 0.5, 2, ())
    assert (yes.name, yes.trained_on, yes.held_back, yes.given) == ("yes", 1, 3, 3)
    assert yes.recall == pytest.approx(2 / 3)
    curve = dict(zip(FALSE_ALARMS, yes.roc, strict=True))
    assert curve[0.48] == pytest.approx(1 / 3)
    assert curve[0.52] == 1.0
    assert (found.calibrated, [one.rows for one in found.calibration]) == ("yes", [1] * 5)
    said = [(one.promised, one.happened) for one in found.calibration]
    assert said == [(0.1, 0.0), (0.2, 1.0), (0.7, 1.0), (0.8, 0.0), (0.9, 1.0)]


def test_equal_scores_come_together_so_that_guessing_is_the_diagonal():
    (_, yes) = figures_by_class(
        logits(0.3, 0.3, 0.3, 0.3), torch.tensor([1, 0, 1, 0]), torch.tensor([0, 1]), ()
    ).classes
    assert yes.name == "1"
    assert yes.roc == pytest.approx(FALSE_ALARMS)


def test_of_several_classes_the_one_that_is_given_is_calibrated_and_an_absent_one_has_no_figure():
    outputs = torch.tensor([[4.0, 0, 0], [4.0, 0, 0], [0, 4.0, 0]])
    found = figures_by_class(outputs, torch.tensor([0, 1, 1]), torch.tensor([0, 2]), ("a", "b", "c"))
    a, b, c = found.classes
    assert (a.recall, b.recall, c.recall) == (1.0, 0.5, None)
    assert (c.trained_on, c.held_back, c.given, c.roc) == (1, 0, 0, ())
    assert found.calibrated == ""
    assert sum(one.happened * one.rows for one in found.calibration) == 2


def test_of_many_classes_those_with_the_most_rows_are_shown():
    labels = torch.cat([torch.arange(100), torch.arange(60, 100)])
    found = figures_by_class(torch.eye(100)[labels], labels, labels, ())
    assert [one.name for one in found.classes] == [str(number) for number in range(60, 60 + MOST_CLASSES)]
    assert sum(bool(one.roc) for one in found.classes) == MOST_CURVES


def test_numbers_and_outputs_that_are_not_finite_have_none():
    labels = torch.tensor([0, 1])
    assert figures_by_class(torch.zeros(2), torch.tensor([0.5, 1.0]), labels, ()) is None
    assert figures_by_class(torch.tensor([0.0, torch.nan]), labels, labels, ()) is None


@pytest.mark.parametrize("rows", [10, 200_000], ids=["few outputs", "many outputs"])
def test_figures_that_are_made_later_are_those_of_now(rows):
    labels = torch.arange(rows) % 2
    outputs = torch.randn(rows, 2, generator=torch.Generator().manual_seed(1))
    expected = figures_by_class(outputs, labels, labels, ("no", "yes"))
    make = class_figures(outputs, labels, labels, ("no", "yes"))
    assert make() == make() == expected
    if rows > 10:  # no outputs of many rows are kept
        outputs.zero_()
        assert make() == expected
