"""Torch's optimisers by the names of a task file, made afresh each round."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from node.config import TrainSection

_SECOND_MOMENT_DECAY = 0.999


def make_optimizer(parameters: Sequence[nn.Parameter], section: TrainSection) -> Optimizer:
    """The optimiser that train.optimizer names, without any state of earlier rounds.

    For Adam and AdamW train.momentum is beta1.
    """
    rate, decay = section.learning_rate, section.weight_decay
    betas = (section.momentum, _SECOND_MOMENT_DECAY)
    match section.optimizer:
        case "sgd":
            return SGD(parameters, rate, section.momentum, weight_decay=decay)
        case "adam":
            return Adam(parameters, rate, betas, weight_decay=decay)
        case "adamw":
            return AdamW(parameters, rate, betas, weight_decay=decay)
    raise ValueError(f"optimizer {section.optimizer!r}")
