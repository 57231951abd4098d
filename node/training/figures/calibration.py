"""Corrects the probabilities of a model that was trained with weighted classes to those in its rows.

A weighted loss teaches a model the probabilities q_k of rows in which the classes have other shares. If class
k counts w_k times as much as its rows, its probability in the rows themselves is

    p_k = (q_k / w_k) / sum_j (q_j / w_j)

(Elkan 2001, "The Foundations of Cost-Sensitive Learning", theorem 2; Saerens, Latinne & Decaestecker 2002,
"Adjusting the Outputs of a Classifier to New a Priori Probabilities", section 2: 1 / w_k is the prior of the
rows over that of training). So -log w_k is added to the logits:

    train.loss                                         w_k                     known from
    balanced-softmax                                   1 / prior_k             train.loss_args.prior
    cross-entropy with loss_args.weight                weight_k                train.loss_args.weight
    bce with loss_args.pos_weight                      1, pos_weight           train.loss_args.pos_weight

The weights are in the task, which every peer has: nothing more is computed from anybody's rows. With privacy
the prior comes from the noised and charged sums of node.agree, or from the task's author. The prediction
stays the class that the weighted model chooses: an author who weighs a rare class wants it predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from node.system.errors import shown
from node.training.figures.metrics import is_one_logit


@dataclass(frozen=True)
class Calibration:
    """The correction that is added to each class's logit, if there is one; and why, in words."""

    shift: tuple[float, ...] | None
    says: str

    def applied(self, outputs: torch.Tensor) -> torch.Tensor:
        """Returns logits (n, k) or (n, 1) of corrected probabilities: 0 for a logit beyond the classes."""
        if self.shift is None:
            return outputs
        if is_one_logit(outputs):
            return outputs.double() + (self.shift[1] - self.shift[0])
        beyond = [-math.inf] * (outputs.shape[1] - len(self.shift))
        return outputs.double() + torch.tensor([*self.shift, *beyond], dtype=torch.float64)

    def as_json(self) -> dict[str, object]:
        """Returns plain values for a model's file."""
        return {"shift": None if self.shift is None else list(self.shift), "says": self.says}


def calibration_of(loss: str, arguments: Mapping[str, Any], classes: int) -> Calibration:
    """Returns the correction for a model of `classes` that `train.loss` with these `loss_args` made."""
    weights = class_weights(loss, arguments, classes)
    if weights is not None and not arguments:
        return Calibration(None, "as the model gives them; no class was weighted")
    if weights is None:
        return Calibration(
            None, f"not calibrated: nothing says how much train.loss = {shown(loss)} weighs each class"
        )
    says = (
        f"corrected for the weights of the classes (train.loss_args.{_WEIGHTED[loss]}); the prediction is "
        "the class that the weighted model chooses, which need not be the most probable one"
    )
    return Calibration(tuple(-math.log(weight) for weight in weights), says)


def class_weights(loss: str, arguments: Mapping[str, Any], classes: int) -> list[float] | None:
    """Returns by how much `train.loss` makes each class count more than its rows; None if nothing says so.

    Logits beyond the classes may have weights, too.
    """
    given = tuple(arguments)
    if loss in ("auto", "cross-entropy", "bce") and not given:
        return [1.0] * classes
    name = _WEIGHTED.get(loss, "")
    weights = _weights(arguments[name], name) if given == (name,) else None
    return None if weights is None or len(weights) < classes else weights


_WEIGHTED = {"balanced-softmax": "prior", "cross-entropy": "weight", "bce": "pos_weight"}
"""The argument by which a loss weighs the classes; with any other, such as smoothing, nothing is known."""


def _weights(given: object, name: str) -> list[float] | None:
    """Returns by how much each class counts more than its rows; None unless all are numbers above 0."""
    if not isinstance(given, list | tuple):
        return None
    numbers = [float(each) for each in given if isinstance(each, int | float) and each > 0]
    if len(numbers) < len(given):
        return None
    if name == "prior":
        return [sum(numbers) / share for share in numbers]
    return [1.0, *numbers] if name == "pos_weight" else numbers
