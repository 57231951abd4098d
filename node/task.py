"""What a task names, built: its model, checked against the data."""

from __future__ import annotations

import importlib
import threading
from functools import reduce
from typing import Any

import torch
from torch import nn

from node.config import ModelSection, Task
from node.data import Dataset
from node.errors import ConfigError, reason, shown

_initialising = threading.Lock()  # torch's initialisers know one generator, the process's


def import_class(path: str) -> type:
    """The class that `path`, "package.module:Class", names; raises ConfigError."""
    module_name, _, name = path.partition(":")
    try:
        found = reduce(getattr, name.split("."), importlib.import_module(module_name))
    except Exception as error:  # a user's module may raise anything
        raise ConfigError(f"{shown(path)} can not be imported: {_told(error)}") from error
    if not isinstance(found, type):
        raise ConfigError(f"{shown(path)} is not a class; allowed: 'package.module:Class'")
    return found


def build_model(task: Task, dataset: Dataset) -> nn.Module:
    """The task's model, as `build` makes it under task.seed."""
    return build(task.model, task.task.seed, dataset)


def build(section: ModelSection, seed: int, dataset: Dataset) -> nn.Module:
    """A section's model on the CPU, its parameters drawn under `seed`.

    The caller's global generator of torch is left as it was. Raises ConfigError if there is no
    such module, the arguments do not suit it, or it does not take or answer the dataset's rows.
    """
    cls = import_class(section.cls)
    if not issubclass(cls, nn.Module):
        raise ConfigError(f"model.class = {shown(section.cls)} is refused; allowed: a torch.nn.Module")
    model = _initialised(cls, section, seed)
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise ConfigError(
                f"model {section.cls}: parameter {name} is {parameter.dtype} on {parameter.device}; "
                "allowed: torch.float32 on cpu"
            )
    _check_fit(model, section, dataset)
    return model


def _initialised(cls: type[nn.Module], section: ModelSection, seed: int) -> nn.Module:
    """An instance of `cls`; the same on every node that has the same task and seed."""
    arguments: dict[str, Any] = dict(section.args)
    with _initialising, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            return cls(**arguments)
        except Exception as error:  # a user's model may raise anything
            raise ConfigError(
                f"model.args = {shown(arguments)} do not suit {section.cls}: {_told(error)}"
            ) from error


def _check_fit(model: nn.Module, section: ModelSection, dataset: Dataset) -> None:
    """ConfigError if `model` does not take the rows or answers in the wrong shape."""
    rows = dataset.train_x[:2]  # (2, ...)
    shape = " x ".join(map(str, rows.shape[1:]))
    try:
        outputs = _answer(model, rows)
    except Exception as error:  # a user's model may raise anything
        raise ConfigError(
            f"model {section.cls} does not take rows of {shape} features: {_told(error)}; change "
            "model.args, data.features or the data"
        ) from error
    _check_outputs(outputs, section, dataset, len(rows))


def _check_outputs(outputs: object, section: ModelSection, dataset: Dataset, rows: int) -> None:
    """ConfigError if `outputs` of `rows` rows are not logits or numbers as the targets need them."""
    got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else ()
    if dataset.classes is None:
        fine, wanted = got in {(rows,), (rows, 1)}, "one number a row"
    else:
        fine = len(got) == 2 and got[0] == rows and got[1] >= dataset.classes
        wanted = f"at least {dataset.classes} logits a row, as class labels go up to {dataset.classes - 1}"
    if not fine:
        raise ConfigError(
            f"model {section.cls} answers {rows} rows with shape {got}; allowed: {wanted}; change "
            "model.args or the target"
        )


def _answer(model: nn.Module, rows: torch.Tensor) -> object:
    """What `model` answers, untrained and undisturbed."""
    training = model.training
    model.eval()
    with torch.inference_mode():
        outputs = model(rows)
    model.train(training)
    return outputs


def _told(error: Exception) -> str:
    """The kind of `error` and what it says."""
    return f"{type(error).__name__}: {reason(error)}"
