"""Predicts with the model of a learner, by the program that has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.predict.model import model_file
from node.runtime.record.artifacts import LEARNER
from node.system.errors import ConfigError, UserError, shown
from node.task.import_path import import_object, told
from node.training.model_file import read_about

PREDICT = "predict"
"""The name of a function beside the one that makes a learner."""


def learner_of(path: Path) -> str | None:
    """Returns the import path of the learner that made the model in `path`; None if none did."""
    task = read_about(model_file(path))["task"]
    model = task.get("model") if isinstance(task, Mapping) else None
    found = model.get("learner") if isinstance(model, Mapping) else None
    return found if isinstance(found, str) else None


def predict_by(learner: str, path: Path, data: Path, out: Path) -> str:
    """Calls `predict(model, data, out)` of the learner's module; returns its line.

    `model` is the folder that the learner's `save` filled. Raises ConfigError.
    """
    module = learner.partition(":")[0]
    try:
        function: Any = import_object(f"{module}:{PREDICT}")
    except ConfigError as error:
        raise ConfigError(
            f"model.learner = {shown(learner)} predicts with its own framework: {module} has no function "
            f"{PREDICT}(model, data, out) ({error})"
        ) from error
    try:
        return str(function(model_file(path).parent / LEARNER, data, out))
    except UserError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise ConfigError(f"{module}:{PREDICT} failed: {told(error)}") from error
