"""What a node learns, and from what: the task's model on its rows, or a learner of another framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from node.app.kept_split import kept_split, split_words
from node.data.dataset import Dataset, load_dataset
from node.data.sides import Split
from node.learners.learner import Learner, LearnerRows, LearnerSetting, Vector
from node.options import NodeOptions
from node.runtime.contributions.learning import Learning, design, learning_of, make_learning
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown
from node.system.system import SYSTEM, System
from node.task.import_path import import_object, told
from node.task.sections import Task
from node.task.table_models import is_exact
from node.training.alone import Lone, LoneLearner, LoneTraining
from node.training.build import drawn_from
from node.training.devices import thread_count
from node.training.initial_weights import loaded_names
from node.training.local_tensors import own_words
from node.training.model_file import Card, task_table
from node.training.own_learner import VECTOR, OwnLearner
from node.training.trainer import Shapes, VectorModel

_PUBLIC = "its names, scales and categories are public to all peers; no noise covers them"
"""Of a schema: it may come from somebody's data."""
_HELD_BACK = "validation"
_YOUR_PROGRAM = "a program of your own: it reads the rows, and a stop waits for the end of its training"


@dataclass(frozen=True)
class About:
    """What a node learns from, and what, in words for the owner."""

    data: str
    """A one-line description of the data."""
    what: str
    """The meaning of the vector's words, such as `65 parameters`."""
    notes: Mapping[str, str]
    """Further start-up lines."""


@dataclass(frozen=True)
class Study:
    """What a node learns, what its peers must have alike, and what its owner is told of it."""

    learning: Learning[VectorModel]
    named: Shapes
    """The names and shapes of what is shared."""
    digests: Mapping[str, str]
    """What else of `[model]` peers must have alike."""
    about: About
    card: Card
    measured_on: str
    """What the rows are on which a model is evaluated."""
    lone: Lone | None
    """Trains a model of this node's rows alone, to compare; None: nobody does."""
    save: Callable[[Vector, Path], None] | None = None
    """Writes a vector (d,) into a folder, in the format of a learner's framework."""


def study(options: NodeOptions, system: System = SYSTEM) -> Study:
    """Returns what the options name. Raises ConfigError for any fault of it."""
    if options.task.model.learner is not None:
        return study_of_learner(options, system)
    split = kept_split(options)
    dataset = load_dataset(options.task, options.data, options.shard, split)
    return study_of_rows(options, dataset, system, split)


def study_of_rows(
    options: NodeOptions, dataset: Dataset, system: System = SYSTEM, split: Split = Split.ROW
) -> Study:
    """Returns the study of the task's torch model on `dataset`, whatever data the options name.

    `split`: how the rows of `dataset` were split. Raises ConfigError.
    """
    task = options.task
    _set_threads(options)
    designed = design(task, dataset)
    learning = make_learning(task, designed.model, dataset, options.seed, designed.mechanism, system)
    trainer, exact = learning.trainer, is_exact(task)
    rounds = options.rounds or task.train.rounds
    return Study(
        learning=learning,
        named=designed.named,
        digests=trainer.digests(loaded_names(task.model)),
        about=About(
            data=dataset.description,
            what=task.model.cls if exact else _parameters(designed.named),
            notes={
                **_noise_words(options),
                **learning.words,
                **split_words(split, designed.mechanism),
                **({} if task.data.schema is None else {"schema": _PUBLIC}),
                **own_words(trainer.own_names, trainer.device),
                **({"gradients": trainer.slow} if trainer.slow else {}),
                **({"features": f"of {task.model.body}, computed once"} if task.model.body else {}),
            },
        ),
        card=Card(
            task_table(task),
            dataset.classes,
            tuple(dataset.train_x.shape[1:]),
            trainer.own_names,
            trainer.left_out,
        ),
        measured_on=dataset.accuracy_name,
        lone=LoneTraining(task, dataset, options.seed, rounds, options.alone_s, system=system)
        if options.alone_s and not exact
        else None,
    )


def study_of_learner(options: NodeOptions, system: System = SYSTEM, given: Learner | None = None) -> Study:
    """Returns the study of the learner that a program or the task gives; raises ConfigError.

    `given`: a learner in place of both.
    """
    task = options.task
    _set_threads(options)
    own = OwnLearner(given or options.learner or _made(options), _initial(task), system.clock)
    learning = learning_of(task, own, system)
    rounds = options.rounds or task.train.rounds
    return Study(
        learning=learning,
        named=own.shapes,
        digests=own.digests,
        about=About(
            data=f"of {own}",
            what=_parameters(own.shapes),
            notes={**_noise_words(options), **learning.words, "learner": _YOUR_PROGRAM},
        ),
        card=Card(task_table(task), None, (1,), ()),
        save=own.save,
        measured_on=_HELD_BACK,
        lone=LoneLearner(own, rounds, options.alone_s, system) if options.alone_s else None,
    )


def _set_threads(options: NodeOptions) -> None:
    endpoints = [peer.endpoint for peer in options.peers]
    chosen = options.task.train.threads
    torch.set_num_threads(thread_count(chosen, options.listen, endpoints, options.tracker))


def _noise_words(options: NodeOptions) -> dict[str, str]:
    return {"noise": options.privacy_note} if options.privacy_note else {}


def _parameters(named: Shapes) -> str:
    return f"{sum(prod(shape) for _, shape in named)} parameters"


def _made(options: NodeOptions) -> Learner:
    """Returns what the function of `model.learner` makes; raises ConfigError."""
    path = options.task.model.learner or ""
    make = import_object(path)
    if not callable(make):
        raise ConfigError(
            f"model.learner = {shown(path)} is refused; allowed: a function that makes a learner"
        )
    setting = LearnerSetting(
        options.task,
        options.data if isinstance(options.data, Path) else None,
        options.shard,
        options.seed,
        lambda: _rows(options),
    )
    try:
        with drawn_from(options.task.task.seed):
            made: Learner = make(setting)
    except ConfigError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise ConfigError(f"model.learner = {shown(path)} made no learner: {told(error)}") from error
    return made


def _rows(options: NodeOptions) -> LearnerRows:
    data = load_dataset(options.task, options.data, options.shard, kept_split(options))
    parts = (data.train_x, data.train_y, data.test_x, data.test_y)
    x, y, test_x, test_y = (part.numpy() for part in parts)
    return LearnerRows(x, y, test_x, test_y, data.classes)


def _initial(task: Task) -> Vector | None:
    """Returns the vector in the file of model.weights, such as a node's model file; None without a file."""
    if task.model.weights is None:
        return None
    path = Path(task.model.weights)
    try:
        check_regular(path)
        with safe_open(path, "np") as file:
            return np.asarray(file.get_tensor(VECTOR))
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"model.weights: {shown(str(path))} cannot be read: {reason(error)}; allowed: a file with the "
            f"tensor {VECTOR!r}, such as a learner's model.safetensors"
        ) from error
