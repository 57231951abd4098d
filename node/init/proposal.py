"""Proposes a task for an owner's data: model, training, and a privacy budget that suits rows and rounds.

These are rules of thumb; the owner can change the task file that they lead to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from mechanisms.accounting.ledger import sampled_noise_multiplier
from node.errors import ConfigError, shown
from node.task.schema import ArraySchema, ClassTarget, Schema
from node.task.sections import AgreementSection

ModelKind = Literal["auto", "linear", "mlp", "cnn"]
TEST_FRACTION = 0.2
_EPSILONS = (1.0, 2.0, 4.0, 8.0)
_BEARABLE_NOISE = 1.0
"""The largest noise of one step, as a multiple of the clipping radius, that training tolerates."""
LOUD_NOISE = 3.0
"""The noise of a step above which a model learns little."""
_LARGEST_DELTA = 1e-5
_LINEAR_BELOW = 2000  # rows: fewer are too few to train a hidden layer
_HIDDEN = 32
_LEAST_RECORDS, _MOST_RECORDS = 10_000, 50_000_000


@dataclass(frozen=True)
class Training:
    """The keys of [train]."""

    rounds: int
    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float


@dataclass(frozen=True)
class Privacy:
    """The keys of [privacy], and the resulting noise of a step as a multiple of the clipping radius."""

    epsilon: float
    delta: float
    noise: float


@dataclass(frozen=True)
class Model:
    """The keys of [model], the number of parameters, and the reason for the choice."""

    cls: str
    args: Mapping[str, Any]
    size: int
    why: str


def propose_agreement(rows: int) -> AgreementSection:
    """Returns the agreement section for peers of about `rows` rows; it reveals only their power of ten."""
    most = 10 ** (math.ceil(math.log10(rows)) + 1)
    return AgreementSection(records=min(_MOST_RECORDS, max(_LEAST_RECORDS, most)))


def propose_model(schema: Schema, rows: int, kind: ModelKind) -> Model:
    """Returns a model for so many `rows`; raises ConfigError if the chosen `kind` does not suit the data."""
    outputs = len(schema.target.values) if isinstance(schema.target, ClassTarget) else 1
    image = isinstance(schema, ArraySchema) and len(schema.shape) == 3 and min(schema.shape[1:]) >= 4
    match kind:
        case "auto":
            chosen: ModelKind = "cnn" if image else "linear" if rows < _LINEAR_BELOW else "mlp"
            why = "images" if image else f"{'fewer than' if rows < _LINEAR_BELOW else 'at least'} 2000 rows"
        case _:
            chosen, why = kind, "as asked"
    width = prod(schema.shape)
    if chosen == "cnn":
        return _cnn(schema, image, outputs, why)
    if chosen == "linear":
        return Model("node.models:Linear", {"inputs": width, "outputs": outputs}, (width + 1) * outputs, why)
    sizes = [width, _HIDDEN, outputs]
    return Model("node.models:MLP", {"sizes": sizes}, (width + 1) * _HIDDEN + (_HIDDEN + 1) * outputs, why)


def _cnn(schema: Schema, image: bool, outputs: int, why: str) -> Model:
    if not image:
        raise ConfigError(
            f"--model cnn is refused for rows of shape {shown(list(schema.shape))}; allowed: images of "
            "[channels, height, width], the last two 4 or more; or --model mlp"
        )
    channels, height, width = schema.shape
    size = (9 * channels + 1) * 16 + (9 * 16 + 1) * 32 + (32 * (height // 4) * (width // 4) + 1) * outputs
    return Model("node.models:ConvNet", {"shape": [channels, height, width], "outputs": outputs}, size, why)


def propose_training(rows: int, rounds: int, private: bool) -> Training:
    """Returns the training for so many `rows`: privacy takes larger batches, which do not add noise."""
    if not private:
        return Training(rounds, 1, _batch(rows / 50, 8, 64), 0.05, 0.9)
    return Training(rounds, 1, _batch(rows / 20, 16, 1024), 0.25, 0.5)


def _batch(wanted: float, low: int, high: int) -> int:
    """Returns the largest power of two up to `wanted`, from `low` to `high`."""
    return min(high, max(low, 2 ** int(math.log2(max(1.0, wanted)))))


def propose_privacy(training: Training, rows: int, parameters: int, epsilon: float | None) -> Privacy:
    """Returns the smallest epsilon of 1, 2, 4, 8 with tolerable noise per step, or the requested `epsilon`.

    delta is at most 0.1 / rows, rounded down to a power of ten, and at most 1e-5. The noise of a step is, in
    the L2 norm over all parameters and as a multiple of the clipping radius, sigma sqrt(d) / batch.
    """
    delta = min(_LARGEST_DELTA, 10.0 ** math.floor(math.log10(0.1 / rows)))
    wanted = _EPSILONS if epsilon is None else (epsilon,)
    tried = [Privacy(each, delta, _noise(training, rows, parameters, each, delta)) for each in wanted]
    return next((each for each in tried if each.noise <= _BEARABLE_NOISE), tried[-1])


def _noise(training: Training, rows: int, parameters: int, epsilon: float, delta: float) -> float:
    sampling = min(1.0, training.batch_size / rows)
    steps = training.rounds * training.epochs * math.ceil(rows / training.batch_size)
    sigma = sampled_noise_multiplier(epsilon, delta, sampling, steps)
    return sigma * math.sqrt(parameters) / training.batch_size
