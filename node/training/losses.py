"""The losses of training: torch's by their names in a task file, or a user's own by import path.

Every loss is a mean over the rows of a batch. Under `dp-sgd` training calls it with batches of one row.

A loss also says what outputs mean: numbers are answers as they are, but with "poisson" the logarithms of
counts' means (`answers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from node.system.errors import ConfigError, shown
from node.task.import_path import import_object, told
from node.task.sections import COUNTS, TrainSection

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps outputs (n, ...) and targets (n,) to a scalar."""


class BalancedSoftmax(nn.Module):
    """Cross-entropy that makes every class weigh the same in decisions, however rare its rows are.

    It adds the logarithm of `prior` (k,), the share of each class, to the logits in training alone: the
    logits themselves then answer as if all classes were equally frequent (Ren et al. 2020, "Balanced
    Meta-Softmax", equation 4; Menon et al. 2021, equation 10). Unlike class weights it is a mean over single
    rows, so it also suits private gradients. Logits beyond the k-th belong to no row.
    """

    shift: torch.Tensor

    def __init__(self, prior: torch.Tensor) -> None:
        super().__init__()
        if prior.dim() != 1 or len(prior) < 2 or not bool((prior > 0).all()):
            raise ValueError("prior is a list with the share of each class, all above 0")
        self.register_buffer("shift", torch.log(prior / prior.sum()).float())

    def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns the mean loss of logits (n, k) for labels (n,)."""
        shares = torch.log_softmax(outputs[:, : len(self.shift)] + self.shift, 1)
        return -shares.gather(1, targets.unsqueeze(1)).mean()


_FARTHEST = 20.0
"""The output beyond which a count's mean grows as a straight line: a gradient has no overflow there.

exp(20) is half a billion. With a schema, whose std is the root of the mean square of n counts, no count
is more than the root of n of these units.
"""


def _mean_of(outputs: torch.Tensor) -> torch.Tensor:
    """Returns the means of counts whose logarithms are `outputs`."""
    beyond = functional.relu(outputs - _FARTHEST)
    return torch.exp(outputs.clamp(max=_FARTHEST)) + math.exp(_FARTHEST) * beyond


class Poisson(nn.Module):
    """Half the Poisson deviance of counts y (n,) whose means have the logarithms o (n,).

    exp(o) - y o + (y log y - y): the negative log-likelihood, less that of the best answer for the row, so
    that it is 0 for a perfect answer (McCullagh & Nelder 1989, "Generalized Linear Models", section 2.3).
    Its gradient is exp(o) - y. If the counts are divided by s, the best o is less by log s and the gradient
    is divided by s: so a schema's std may scale the counts, and outputs near 0 are a good start.
    """

    def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns the mean loss."""
        return (_mean_of(outputs) - targets * outputs + torch.xlogy(targets, targets) - targets).mean()


_FOR_CLASSES: Mapping[str, type[nn.Module]] = {
    "cross-entropy": nn.CrossEntropyLoss,
    "balanced-softmax": BalancedSoftmax,
    "bce": nn.BCEWithLogitsLoss,
}
_FOR_NUMBERS: Mapping[str, type[nn.Module]] = {
    "mse": nn.MSELoss,
    "mae": nn.L1Loss,
    "huber": nn.HuberLoss,
    COUNTS: Poisson,
}


def make_loss(section: TrainSection, classes: int | None, device: torch.device) -> Loss:
    """Returns the loss that train.loss names, for targets of `classes` classes, or numeric ones if None.

    Outputs for numbers, and for "bce", may be (n,) or (n, 1) and are reshaped to the targets' shape. A loss
    for classes by import path receives the model's outputs unchanged. Raises ConfigError.
    """
    if section.loss == "auto":
        return functional.cross_entropy if classes is not None else partial(_shaped, functional.mse_loss)
    if ":" in section.loss:
        own = _called(section.loss, import_object(section.loss), section.loss_args, device)
        return own if classes is not None else partial(_shaped, own)
    _check_kind(section.loss, classes)
    made = _made(section.loss, section.loss_args, device)
    if isinstance(made, BalancedSoftmax) and len(made.shift) != classes:
        raise ConfigError(
            f"train.loss_args.prior has {len(made.shift)} shares; allowed: {classes}, one for each class"
        )
    return made if section.loss in ("cross-entropy", "balanced-softmax") else partial(_shaped, made)


def answers(section: TrainSection, outputs: torch.Tensor) -> torch.Tensor:
    """Returns what outputs (n, ...) answer, in the targets' scale: logits, numbers, or means of counts."""
    return _mean_of(outputs) if section.counts else outputs


def constant_outputs(section: TrainSection, targets: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns constant outputs, one of which is the best constant answer to the numeric targets (n,)."""
    mean = targets.mean()
    return (mean.clamp_min(1e-9).log(),) if section.counts else (mean, targets.median())


def uniform_loss(
    section: TrainSection, loss: Loss, outputs: torch.Tensor, targets: torch.Tensor
) -> float | None:
    """Returns the loss of an answer that has no class more probable than another; None if it says nothing.

    `outputs` (n, ...): any answers for the targets (n,), for their shape.
    """
    if targets.is_floating_point() or ":" in section.loss:
        return None
    return float(loss(torch.zeros_like(outputs), targets))


def check_counts(section: TrainSection, targets: torch.Tensor, unit: float) -> None:
    """Raises ConfigError if the loss is for counts, and one of the targets (n,) in `unit` is none."""
    if not section.counts or not targets.is_floating_point():
        return
    values = targets.double() * unit
    rounding = 1e-6 * values.abs().clamp_min(1.0)  # float32 has 2^-24
    wrong = values[(values < 0) | ((values - values.round()).abs() > rounding)]
    if len(wrong):
        raise ConfigError(
            f"train.loss = {COUNTS!r} is refused: the target has {float(wrong[0]):g}; allowed: whole numbers "
            "from 0 on; mend it, or take train.loss = 'mse' or 'huber', for which python -m node.init "
            "--target-kind number makes a task"
        )


def _shaped(loss: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns `loss` of outputs (n,) or (n, 1) and targets (n,), both as floats of one shape."""
    return loss(outputs.reshape(targets.shape), targets.to(outputs.dtype))


def _check_kind(name: str, classes: int | None) -> None:
    """Raises ConfigError unless the loss suits the kind of targets; "bce" requires two classes."""
    fitting = _FOR_NUMBERS if classes is None else _FOR_CLASSES
    if name not in fitting:
        kind = "numbers" if classes is None else f"classes 0 to {classes - 1}"
        raise ConfigError(
            f"train.loss = {name!r} is refused: the targets are {kind}; allowed: 'auto', "
            f"{', '.join(map(repr, fitting))} or 'package.module:Name'"
        )
    if name == "bce" and classes != 2:
        raise ConfigError(
            f"train.loss = 'bce' is refused: the targets have {classes} classes; allowed: 2, or "
            "train.loss='cross-entropy' with a logit for each"
        )


def _made(name: str, arguments: Mapping[str, Any], device: torch.device) -> Loss:
    """Returns torch's loss with `arguments`; lists become tensors."""
    if "reduction" in arguments:
        raise ConfigError(
            f"train.loss_args.reduction = {shown(arguments['reduction'])} is refused: every loss is a mean "
            "over the rows; leave it out"
        )
    return _called(name, (_FOR_CLASSES | _FOR_NUMBERS)[name], arguments, device)  # type: ignore[operator]


def _called(name: str, found: object, arguments: Mapping[str, Any], device: torch.device) -> Loss:
    """Instantiates a class with `arguments` or binds them to a function; lists become tensors on `device`."""
    given = {
        key: torch.tensor(item, device=device) if isinstance(item, list) else item
        for key, item in arguments.items()
    }
    try:
        loss = found(**given) if isinstance(found, type) else found
    except Exception as error:  # a user's loss may raise anything
        raise ConfigError(
            f"train.loss_args = {shown(dict(arguments))} do not suit train.loss = {shown(name)}: "
            f"{told(error)}"
        ) from error
    if not callable(loss):
        raise ConfigError(
            f"train.loss = {shown(name)} cannot be called; allowed: a function of outputs and targets, or a "
            "class whose objects are"
        )
    if isinstance(loss, nn.Module):
        loss = loss.to(device)
    return loss if isinstance(found, type) else partial(loss, **given)


def check_loss(name: str, loss: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Raises ConfigError unless `loss` of outputs (n, ...) and targets (n,) is a scalar with a gradient."""
    tried = outputs.detach().clone().requires_grad_()
    try:
        value: object = loss(tried, targets)
    except Exception as error:  # a user's loss may raise anything
        raise ConfigError(f"train.loss = {shown(name)} does not suit this task: {told(error)}") from error
    if not isinstance(value, torch.Tensor) or value.dim() != 0 or not value.requires_grad:
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
        raise ConfigError(
            f"train.loss = {shown(name)} gives a {type(value).__name__}{shape}; allowed: a tensor with one "
            "number, the mean over the rows, that has a gradient"
        )
