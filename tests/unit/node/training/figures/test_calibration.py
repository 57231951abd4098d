"""Probabilities of models with weighted classes are corrected by the weights that the task has."""

import json
import math

import pytest
import torch

from node.task.sections import TrainSection
from node.training.figures.calibration import calibration_of
from node.training.figures.metrics import probabilities
from node.training.losses import make_loss
from tests.unit.node.cases import cases


@pytest.mark.parametrize(
    ("name", "arguments", "outputs"),
    [
        ("balanced-softmax", {"prior": [0.97, 0.03]}, 2),
        ("cross-entropy", {"weight": [1.0, 30.0]}, 2),
        ("bce", {"pos_weight": [30.0]}, 1),
    ],
)
@pytest.mark.parametrize("ill", [3, 20])
def test_where_a_weighted_loss_is_lowest_the_corrected_probability_is_the_share_of_the_rows(
    name, arguments, outputs, ill
):
    """Of a hundred alike rows, so many are ill: the loss has no gradient at what is corrected to that."""
    found = calibration_of(name, arguments, 2)
    logit = math.log(ill / (100 - ill)) - (found.shift[1] - found.shift[0])
    best = torch.tensor([[logit]] if outputs == 1 else [[0.0, logit]], requires_grad=True)
    loss = make_loss(TrainSection(loss=name, loss_args=arguments), 2, torch.device("cpu"))
    loss(best.expand(100, outputs), (torch.arange(100) < ill).long()).backward()
    assert best.grad.abs().max().item() < 1e-6
    raw = best.detach()
    assert probabilities(found.applied(raw))[0, 1] == pytest.approx(ill / 100, rel=1e-5)
    assert probabilities(raw)[0, 1] > 0.4, "what the model itself says"
    (key,) = arguments
    assert found.says.startswith(f"corrected for the weights of the classes (train.loss_args.{key})")
    assert found.as_json() == {"shift": list(found.shift), "says": found.says}


def test_a_prior_may_be_counts_and_a_logit_of_no_class_has_no_chance():
    shares, counts = (calibration_of("balanced-softmax", {"prior": p}, 2) for p in ([0.9, 0.1], [9, 1]))
    assert shares.shift == pytest.approx(counts.shift)
    chances = probabilities(shares.applied(torch.tensor([[0.0, 0.0, 7.0]])))
    assert chances[0].tolist() == pytest.approx([0.9, 0.1, 0.0])


@cases("""
    loss => arguments => says
    auto => {} => as the model gives them; no class was weighted
    cross-entropy => {} => as the model gives them; no class was weighted
    bce => {} => as the model gives them; no class was weighted
    cross-entropy => {"label_smoothing": 0.1} => not calibrated
    cross-entropy => {"weight": [1, 2], "label_smoothing": 0.1} => not calibrated
    cross-entropy => {"weight": [1, 0]} => not calibrated
    cross-entropy => {"weight": [1]} => not calibrated
    bce => {"weight": [1, 2]} => not calibrated
    balanced-softmax => {"prior": "even"} => not calibrated
    own:Loss => {} => not calibrated: nothing says how much train.loss = 'own:Loss' weighs each class
    own:Loss => {"weight": [1, 2]} => not calibrated
""")
def test_what_was_not_weighted_and_what_nothing_is_known_of_stays(loss, arguments, says):
    found = calibration_of(loss, json.loads(arguments), 2)
    assert found.says.startswith(says)
    outputs = torch.tensor([[1.0, 2.0]])
    assert found.shift is None
    assert found.applied(outputs) is outputs
