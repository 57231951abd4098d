"""Builds a task's model and checks it against the data."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from mechanisms.gradients.side_effects import in_eval_mode
from node.data.dataset import Dataset
from node.system.errors import ConfigError, shown
from node.task.import_path import import_class, told
from node.task.sections import ModelSection, Task
from node.training.initial_weights import load_weights
from node.training.parameter_scope import plain_tensors

_initialising = threading.Lock()  # torch's initialisers use the global generator of the process
_KINDS = (  # types of buffers that numpy and a model file support too
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.float32, torch.float64),
)


def build_model(task: Task, dataset: Dataset) -> nn.Module:
    """Returns the task's model, made with task.seed; raises ConfigError if it does not fit the dataset."""
    model = make(task.model, task.task.seed)
    _check_fit(model, task.model, dataset, task.train.loss)
    return model


def build(section: ModelSection, seed: int, dataset: Dataset) -> nn.Module:
    """Returns a section's model on the CPU, for the default loss, with parameters drawn from `seed`.

    Torch's global generator keeps its state. Raises ConfigError if there is no such module, the arguments do
    not suit it, or its inputs or outputs do not fit the dataset's rows.
    """
    model = make(section, seed)
    _check_fit(model, section, dataset, "auto")
    return model


def make(section: ModelSection, seed: int) -> nn.Module:
    """Returns a section's model on the CPU, from `seed` and its file of weights; raises ConfigError."""
    if section.learner is not None:
        raise ConfigError(
            f"model.learner = {shown(section.learner)} is refused here, where a torch model is needed; "
            "use the learner's own framework, or a task with model.class"
        )
    cls = import_class(section.cls)
    if not issubclass(cls, nn.Module):
        raise ConfigError(f"model.class = {shown(section.cls)} is refused; allowed: a torch.nn.Module")
    model = _initialised(cls, section, seed)
    _check_tensors(model, section)
    if section.weights is not None:
        load_weights(model, Path(section.weights), "model.weights")
    return model


def _check_tensors(model: nn.Module, section: ModelSection) -> None:
    """Raises ConfigError for tensors that nodes cannot sum, store or reproduce from a seed."""
    for name, tensor in plain_tensors(model).items():
        if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
            raise ConfigError(
                f"model {section.cls}: {name} has no shape before it has seen rows (a lazy layer), and would "
                "not be drawn under task.seed; give the layer its sizes"
            )
        parameter = isinstance(tensor, nn.Parameter)
        if tensor.dtype not in ((torch.float32,) if parameter else _KINDS) or tensor.device.type != "cpu":
            kind, allowed = ("parameter", "torch.float32") if parameter else ("buffer", "plain numbers")
            raise ConfigError(
                f"model {section.cls}: {kind} {name} is {tensor.dtype} on {tensor.device}; "
                f"allowed: {allowed} on cpu"
            )


def _initialised(cls: type[nn.Module], section: ModelSection, seed: int) -> nn.Module:
    """Returns an instance of `cls`, the same on every node with the same task and seed."""
    arguments: dict[str, Any] = dict(section.args)
    with _drawn_by_torch(seed):
        try:
            return cls(**arguments)
        except Exception as error:  # a user's model may raise anything
            raise ConfigError(
                f"model.args = {shown(arguments)} do not suit {section.cls}: {told(error)}"
            ) from error


@contextmanager
def _drawn_by_torch(seed: int) -> Iterator[None]:
    """Makes torch draw from `seed`; its generator goes on afterwards as if nothing had been drawn."""
    with _initialising, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Makes torch, numpy and `random` draw from `seed`; then they go on as if nothing had been drawn."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - other programs draw from it
    with _drawn_by_torch(seed):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _check_fit(model: nn.Module, section: ModelSection, dataset: Dataset, loss: str) -> None:
    """Raises ConfigError if `model` does not accept the rows or its outputs do not fit train.loss."""
    rows = dataset.train_x[:2]  # (2, ...)
    shape = " x ".join(map(str, rows.shape[1:]))
    try:
        with in_eval_mode(model), torch.inference_mode():
            outputs = model(rows)
    except Exception as error:  # a user's model may raise anything
        raise ConfigError(
            f"model {section.cls} does not take rows of {shape} features: {told(error)}; change "
            "model.args, data.features or the data"
        ) from error
    _check_outputs(outputs, section, dataset.classes, loss, len(rows))


def _check_outputs(outputs: object, section: ModelSection, classes: int | None, loss: str, rows: int) -> None:
    """Raises ConfigError unless `outputs` for `rows` rows are logits or numbers that fit targets and loss."""
    got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else ()
    one_each = got in {(rows,), (rows, 1)}
    if classes is None:
        fine, wanted = one_each, "one number a row"
    elif loss == "bce":
        fine, wanted = one_each, "one logit a row, for train.loss = 'bce'"
    else:
        fine = len(got) == 2 and got[0] == rows and got[1] >= classes
        fine = fine or (one_each and classes == 2 and ":" in loss)
        wanted = f"at least {classes} logits a row, as class labels go up to {classes - 1}"
    if not fine:
        raise ConfigError(
            f"model {section.cls} answers {rows} rows with shape {got}; allowed: {wanted}; change "
            "model.args or the target"
        )
