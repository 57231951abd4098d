"""A model as a file: all of its tensors, and the metadata to rebuild and use it.

The metadata is one key, `murmuration`, with JSON whose keys are sorted: several keys would be written in
random order, and equal models would give different files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from node.storage.regular_files import check_regular
from node.storage.whole_files import whole
from node.system.errors import ConfigError, UserError, one_line, reason, shown
from node.task.rules import toml_name
from node.task.sections import Task
from node.task.shared_noise_keys import readable
from node.training.figures.calibration import calibration_of
from protocol.wire.messages import Base

Tensors = Mapping[str, NDArray[np.generic]]

KEY = "murmuration"
LOCAL_PATHS = (("data", "source"), ("data", "encoder"), ("model", "weights"))
"""Keys of a task that are paths on one machine; a model file leaves them out, as owners may share it."""
OWN_CELLS = ("data", "cells")
"""The key of a task about how one owner's file is written: no file that others may get has it."""


@dataclass(frozen=True)
class Card:
    """The constant part of the metadata in a run's model files.

    `task` is a table for `node.task.load.read_task`; `classes` is as in `node.data.dataset.Dataset`; `row` is
    the shape of one row. `own` are the names of the node's own tensors, in which files of equal bases may
    differ. `left_out`: the digest of fixed tensors that are too large for the files; None: they have all.
    """

    task: Mapping[str, Any]
    classes: int | None
    row: tuple[int, ...]
    own: tuple[str, ...]
    left_out: str | None = None

    def filled(
        self,
        holds: str,
        base: Base,
        privacy: Mapping[str, object] | None,
        finished: bool | None = None,
    ) -> dict[str, object]:
        """Returns the metadata with the values of a round.

        `participants` is the number of updates in the last mean, `privacy` the ledger. `finished`: whether
        the job is over that makes the model; None: any round's model is one.
        """
        return {
            "holds": holds,
            "base_digest": base.digest.hex(),
            "generation": base.generation,
            "participants": base.members,
            "privacy": privacy,
            "task": self.task,
            "classes": self.classes,
            "row": list(self.row),
            "own": sorted(self.own),
            "calibration": self._calibration(),
            **({} if self.left_out is None else {"left_out": self.left_out}),
            **({} if finished is None else {"finished": finished}),
        }

    def _calibration(self) -> dict[str, object] | None:
        """The correction of a classifier's probabilities (`calibration_of`), or that there is none."""
        train = self.task.get("train")
        if self.classes is None or train is None:
            return None
        return calibration_of(train["loss"], train["loss_args"], self.classes).as_json()


def task_table(task: Task) -> dict[str, Any]:
    """Returns `task` as a parsed TOML table, without what is of one file alone, and without unset keys."""
    table = {name: readable(task, name, values) for name, values in _plain(task).items()}
    for section, name in (*LOCAL_PATHS, OWN_CELLS):
        table[section].pop(name, None)
    return table


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        named = {toml_name(entry): getattr(value, entry.name) for entry in fields(value)}
        return {name: _plain(item) for name, item in named.items() if item is not None}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def write_model(path: Path, tensors: Tensors, about: Mapping[str, object]) -> None:
    """Writes a model file atomically; raises UserError if there is no room for it."""
    written = json.dumps(about, sort_keys=True, allow_nan=False)
    arrays = {name: np.asarray(part, order="C") for name, part in tensors.items()}
    try:
        with whole(path) as temporary:
            save_file(arrays, temporary, metadata={KEY: written})
    except (FileNotFoundError, SafetensorError) as error:
        raise UserError(f"{path} cannot be written: {reason(error)}; make room there") from error


def read_tensors(path: Path) -> dict[str, NDArray[np.generic]]:
    """Returns all tensors of a model file; raises UserError if it cannot be read."""
    try:
        check_regular(path)
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no dictionary
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read: {reason(error)}; start with another --out") from error


def unfinished_words(about: Mapping[str, Any]) -> str:
    """Returns that a model file's job was not over, in words; empty if it was, or if there is no job."""
    if about.get("finished") is not False:
        return ""
    sums = one_line(str(about.get("generation")))[:16]
    return f"UNFINISHED: its job was not over after sum {sums}; take the file of a job that has ended"


def read_about(path: Path) -> dict[str, Any]:
    """Returns the metadata of a model file; raises ConfigError if no node wrote it."""
    try:
        check_regular(path)
        with safe_open(path, "np") as file:
            about = json.loads((file.metadata() or {}).get(KEY, "null"))
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise ConfigError(f"--model {shown(str(path))} cannot be read: {reason(error)}") from error
    if not isinstance(about, dict) or not isinstance(about.get("task"), dict):
        raise ConfigError(
            f"--model {shown(str(path))} does not say what task it is of; allowed: model.safetensors or "
            "private.safetensors as a node writes them, or its --out folder"
        )
    return about
