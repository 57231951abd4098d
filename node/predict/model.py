"""Rebuilds a run's model from its file alone, and computes its predictions."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from node.data.dataset import target_words
from node.system.errors import ConfigError, shown
from node.task.data_schema import NumberTarget
from node.task.import_path import told
from node.task.load import read_kept_task
from node.task.sections import Task
from node.training.at_once import parts
from node.training.build import make
from node.training.figures.calibration import Calibration, calibration_of
from node.training.figures.metrics import (
    chosen_labels,
    chosen_metrics,
    class_name,
    probabilities,
)
from node.training.initial_weights import load_weights
from node.training.losses import answers, check_counts, make_loss
from node.training.model_file import read_about
from node.training.parameter_scope import digest_of, plain_tensors
from node.training.trainer import Evaluation, evaluated

MODEL = "model.safetensors"
_AT_ONCE = 4096
_MOST_CLASSES = 1_000_000


@dataclass(frozen=True)
class SavedModel:
    """A model in eval mode, and the metadata of its file; `row` is the shape of one row."""

    model: nn.Module
    task: Task
    classes: int | None
    row: tuple[int, ...]
    about: Mapping[str, Any]


def model_file(path: Path) -> Path:
    """Returns the model file in `path`, a file or a run's folder; raises ConfigError."""
    file = path / MODEL if path.is_dir() else path
    if file.is_dir():
        raise ConfigError(f"--model {shown(str(file))} is a folder; allowed: a run's --out, or a file")
    return file


def open_model(path: Path, weights: Path | None = None) -> SavedModel:
    """Opens the model in `path`, a file or a run's folder; raises ConfigError.

    It imports the class that the file names, as for a task file. `weights`: the file of initial weights, for
    a model whose file leaves out what these have.
    """
    file = model_file(path)
    about = read_about(file)
    task, classes, row = read_kept_task(about["task"]), about.get("classes"), about.get("row")
    is_count = classes is None or (type(classes) is int and 2 <= classes <= _MOST_CLASSES)  # None: numbers
    if not is_count or not _is_shape(row):
        raise ConfigError(
            f"--model {shown(str(file))} does not say what its rows and classes are; take the file as a node "
            "wrote it"
        )
    given = None if weights is None else str(weights)
    model = make(replace(task.model, weights=given), task.task.seed)
    missing = plain_tensors(model).keys() - set(load_weights(model, file, "--model"))
    left_out = about.get("left_out")
    if missing and left_out is not None and left_out != digest_of(model, missing):
        raise ConfigError(
            f"--model {shown(str(file))} leaves out what was not trained, such as "
            f"{shown(sorted(missing)[0])}, and {task.model.cls} makes other numbers here; give the "
            "folder or package that it reads as it was, and what the task had as model.weights with --weights"
        )
    if missing and left_out is None:
        raise ConfigError(
            f"--model {shown(str(file))} lacks {shown(sorted(missing)[0])}, which {task.model.cls} has; the "
            "class is another one than it was"
        )
    return SavedModel(model.eval(), task, classes, tuple(row), about)


def _is_shape(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(size) is int and size > 0 for size in value)


def answer(saved: SavedModel, x: torch.Tensor) -> torch.Tensor:
    """Returns the outputs for rows x (n, ...): logits (n, k) or (n, 1), or numbers (n,) or (n, 1).

    Raises ConfigError for outputs that fit neither classes nor numbers; see docs/models.md.
    """
    try:
        with torch.inference_mode():
            outputs = torch.cat([saved.model(batch) for batch in parts(x, _AT_ONCE)])
    except Exception as error:  # a user's model may raise anything
        raise ConfigError(f"model {saved.task.model.cls} does not take these rows: {told(error)}") from error
    count, shape, classes = len(x), tuple(outputs.shape), saved.classes
    single = shape in {(count,), (count, 1)}
    named = classes is not None and len(shape) == 2 and shape[0] == count and shape[1] >= classes
    if not (named or (single and classes in {None, 2})):
        wanted = "one number" if classes is None else f"{classes} logits"
        raise ConfigError(
            f"model {saved.task.model.cls} answers {shape} to {count} rows; allowed: {wanted} a row; the "
            "class is another one than it was"
        )
    return outputs


def figures(saved: SavedModel, outputs: torch.Tensor, targets: torch.Tensor) -> Evaluation:
    """Returns loss, accuracy and metrics of outputs (n, ...) for targets (n,), as in summary.json."""
    section = saved.task.train
    loss = make_loss(section, saved.classes, torch.device("cpu"))
    names, unit = target_words(saved.task.data.schema)
    check_counts(section, targets, unit)
    metrics = chosen_metrics(section, saved.classes)
    return evaluated(section, loss, metrics, outputs, targets, names, unit)


def calibration(saved: SavedModel) -> Calibration | None:
    """Returns what makes the model's probabilities those of the rows; None for numbers."""
    section = saved.task.train
    return None if saved.classes is None else calibration_of(section.loss, section.loss_args, saved.classes)


def class_names(saved: SavedModel, count: int) -> list[str]:
    """Returns the names of the model's `count` classes; numbers for those that the task does not name."""
    known, _ = target_words(saved.task.data.schema)
    return [class_name(known, label) for label in range(count)]


def in_own_units(saved: SavedModel, values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns predictions (n,) in the units of the data instead of the scaled ones of training."""
    schema = saved.task.data.schema
    if schema is None or not isinstance(schema.target, NumberTarget):
        return values.astype(np.float64)
    return values.astype(np.float64) * schema.target.std + schema.target.mean


def written(
    saved: SavedModel, outputs: torch.Tensor, beside: Sequence[Sequence[object]] | None = None
) -> bytes:
    """Returns a CSV of predictions: row number from 1, prediction, and for classes all probabilities.

    `beside`: further cells, of the head and of each row.

    A number is in the unit of the data, that of a count its mean. Probabilities are corrected
    (node.training.figures.calibration), the predicted class is the model's.
    """
    text, lines = io.StringIO(), _lines(saved, outputs)
    if beside is not None:
        lines = ([*line, *more] for line, more in zip(lines, beside, strict=True))
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def _lines(saved: SavedModel, outputs: torch.Tensor) -> Iterator[list[object]]:
    corrected = calibration(saved)
    if corrected is None:
        yield ["row", "prediction"]
        values = in_own_units(saved, answers(saved.task.train, outputs).reshape(-1).numpy())
        yield from ([number, f"{value:.9g}"] for number, value in enumerate(values, 1))
        return
    chances, labels = probabilities(corrected.applied(outputs)), chosen_labels(outputs).tolist()
    names = class_names(saved, chances.shape[1])
    yield ["row", "prediction", *(f"p({name})" for name in names)]
    for number, (label, row) in enumerate(zip(labels, chances, strict=True), 1):
        yield [number, names[label], *(f"{chance:.6g}" for chance in row)]
