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
from mechanisms.updates.distributed import charged_steps
from node.system.errors import ConfigError, shown
from node.task.data_schema import ArraySchema, ClassTarget, Schema
from node.task.plain_defaults import plain_defaults, power_of_two
from node.task.sections import AgreementSection, ModelSection
from node.task.step_defaults import StepDefaults, step_defaults_of

ModelKind = Literal["auto", "additive", "trees", "network", "linear", "mlp", "cnn", "scattering"]
TEST_FRACTION = 0.2
_EPSILONS = (1.0, 2.0, 4.0, 8.0)
_BEARABLE_NOISE = 1.0
"""The largest noise of one step, as a multiple of the clipping radius, that training tolerates."""
_LOUD_NOISE = 3.0
_BORNE_ON_FEATURES = 6.0
"""How much more of it a linear layer on scattering features tolerates (docs/models.md has figures)."""
_BEARABLE_SHARED_NOISE, LOUD_SHARED_NOISE = 2.0, 6.0
"""As above, for steps whose rate follows the noise (docs/step-defaults.md has figures)."""
_LARGEST_DELTA = 1e-5
BODY = "body"
"""The part of node.models:Scattering that is not trained."""
_PATHS, _LEAST_SIDE, _MOST_FEATURES = 81, 8, 20_000  # features beyond this number drown in their noise
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
    optimizer: str = "sgd"
    schedule: str = "constant"
    searched: bool = False
    """Whether the rate was found on the owner's rows."""


@dataclass(frozen=True)
class SharedTraining:
    """The keys of steps that `peers` take together, and what the table gives for the rows of all of them.

    `steps` is None if the table's number is meant.
    """

    peers: int
    honest: int
    expected_rows: int
    steps: int | None
    found: StepDefaults


@dataclass(frozen=True)
class Privacy:
    """The keys of [privacy], and the resulting noise of a step as a multiple of the clipping radius."""

    epsilon: float
    delta: float
    noise: float
    loud: bool
    """Whether this is more noise than the model bears."""
    clipping_radius: float = 1.0


@dataclass(frozen=True)
class Model:
    """The keys of [model], the number of parameters, and the reason for the choice."""

    cls: str
    args: Mapping[str, Any]
    size: int
    why: str
    body: str | None = None
    """The part that is not trained and whose outputs are computed once."""
    follows: bool = False
    """Whether the arguments follow from the schema, so that a task need not say them."""


def trained_on(units: int) -> int:
    """Returns about how many of an owner's rows, or persons, are not held back."""
    return max(1, round(units * (1 - TEST_FRACTION)))


def propose_agreement(rows: int) -> AgreementSection:
    """Returns the agreement section for peers of about `rows` rows; it reveals only their power of ten."""
    most = 10 ** (math.ceil(math.log10(rows)) + 1)
    return AgreementSection(records=min(_MOST_RECORDS, max(_LEAST_RECORDS, most)))


def propose_model(schema: Schema, rows: int, kind: ModelKind, private: bool) -> Model:
    """Returns a model for so many `rows`; raises ConfigError if the chosen `kind` does not suit the data.

    With record-level privacy, images of one or three channels get scattering features, unless these are many.
    """
    outputs = len(schema.target.values) if isinstance(schema.target, ClassTarget) else 1
    image = isinstance(schema, ArraySchema) and len(schema.shape) == 3 and min(schema.shape[1:]) >= 4
    if kind == "network":
        chosen, why = "cnn" if image else "mlp", "as asked"
    elif kind != "auto":
        chosen, why = kind, "as asked"
    elif image and private and schema.shape[0] in {1, 3} and 0 < _features(schema) <= _MOST_FEATURES:
        chosen, why = "scattering", "images, with privacy for each row"
    elif image:
        chosen, why = "cnn", "images"
    elif rows < _LINEAR_BELOW:
        chosen, why = "linear", "fewer than 2000 rows"
    else:
        chosen, why = "mlp", "at least 2000 rows"
    width = prod(schema.shape)
    if chosen == "cnn":
        return _cnn(schema, image, outputs, why)
    if chosen == "scattering":
        return _scattering(schema, outputs, why)
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


def _scattering(schema: Schema, outputs: int, why: str) -> Model:
    size = _features(schema)
    if not size:
        raise ConfigError(
            f"--model scattering is refused for rows of shape {shown(list(schema.shape))}; allowed: images "
            "of [channels, height, width], the last two 8 or more"
        )
    args = {"shape": list(schema.shape), "outputs": outputs}
    return Model("node.models:Scattering", args, (size + 1) * outputs, why, BODY)


def _features(schema: Schema) -> int:
    """The number of scattering features of a row; 0 if it is no image for them."""
    if not isinstance(schema, ArraySchema) or len(schema.shape) != 3 or min(schema.shape[1:]) < _LEAST_SIDE:
        return 0
    channels, height, width = schema.shape
    return channels * _PATHS * (height // 4) * (width // 4)


def propose_training(rows: int, rounds: int, body: str | None = None) -> Training:
    """Returns the training with noise for so many `rows`: in larger batches, which do not add noise.

    On scattering features gradients are clipped to a tenth, so the step is ten times as long.
    """
    return Training(rounds, 1, power_of_two(rows / 20, 16, 1024), 0.25 / clipping_radius(body), 0.5)


def propose_plain_training(model: Model, schema: Schema, rows: int, rounds: int) -> Training:
    """Returns the training without privacy, by the table of node.task.plain_defaults."""
    width = _features(schema) if model.body is not None else prod(schema.shape)
    found = plain_defaults(model.cls, width, rows, rounds)
    return Training(
        rounds=rounds,
        epochs=found.epochs,
        batch_size=found.batch_size,
        learning_rate=found.learning_rate,
        momentum=found.momentum,
        optimizer=found.optimizer,
        schedule=found.schedule,
    )


def clipping_radius(body: str | None) -> float:
    """Returns privacy.clipping_radius: rows of normalised features have alike and small gradients."""
    return 1.0 if body is None else 0.1


def propose_privacy(
    training: Training, rows: int, parameters: int, epsilon: float | None, body: str | None = None
) -> Privacy:
    """Returns the smallest epsilon of 1, 2, 4, 8 with tolerable noise per step, or the requested `epsilon`.

    delta is at most 0.1 / rows, rounded down to a power of ten, and at most 1e-5. The noise of a step is, in
    the L2 norm over all parameters and as a multiple of the clipping radius, sigma sqrt(d) / batch. `body` is
    the part of the model that is not trained.
    """
    delta = _delta(rows)
    most = _BEARABLE_NOISE if body is None else _BEARABLE_NOISE * _BORNE_ON_FEATURES
    wanted = _EPSILONS if epsilon is None else (epsilon,)
    noises = {each: _noise(training, rows, parameters, each, delta) for each in wanted}
    chosen = next((each for each, noise in noises.items() if noise <= most), wanted[-1])
    noise = noises[chosen]
    return Privacy(chosen, delta, noise, noise > loud_noise(body), clipping_radius(body))


def propose_shared(
    peers: int, rows: int, model: Model, rounds: int, epsilon: float | None
) -> tuple[SharedTraining, Privacy]:
    """Returns training and privacy for `peers` of about as many `rows` each, who share their noise.

    Half of a peer's others are taken to be honest. Of 1, 2, 4, 8 it is the smallest epsilon whose noise in a
    step is tolerable, or the requested one; batch, steps, rate and clip follow from the table of
    node.task.step_defaults. delta is as in `propose_privacy`, for the rows of all.
    """
    honest, expected = max(1, (peers - 1) // 2), int(float(f"{peers * rows:.1g}"))
    delta = _delta(expected)
    most = _BEARABLE_SHARED_NOISE
    wanted = _EPSILONS if epsilon is None else (epsilon,)

    def proposed(budget: float) -> tuple[SharedTraining, Privacy]:
        found = step_defaults_of(ModelSection(model.cls, model.args, body=model.body), expected, budget)
        asked = rounds * found.report_every
        steps = None if asked == found.steps else asked
        noise = _shared_noise(found, asked, expected, model.size, budget, delta)
        noise *= math.sqrt(peers / (honest + 1))
        return (
            SharedTraining(peers, honest, expected, steps, found),
            Privacy(budget, delta, noise, noise > LOUD_SHARED_NOISE, found.clipping_radius),
        )

    each = [proposed(budget) for budget in wanted]
    return next((one for one in each if one[1].noise <= most), each[-1])


def _shared_noise(
    found: StepDefaults, steps: int, rows: int, parameters: int, epsilon: float, delta: float
) -> float:
    """The noise of a step as `Privacy` has it, if a trusted server added it."""
    sampling = min(1.0, found.expected_batch / rows)
    sigma = sampled_noise_multiplier(epsilon, delta, sampling, charged_steps(steps))
    return sigma * math.sqrt(parameters) / found.expected_batch


def _delta(rows: int) -> float:
    return min(_LARGEST_DELTA, 10.0 ** math.floor(math.log10(0.1 / rows)))


def loud_noise(body: str | None) -> float:
    """Returns the noise of a step above which a model with this untrained part learns little."""
    return _LOUD_NOISE if body is None else _LOUD_NOISE * _BORNE_ON_FEATURES


def _noise(training: Training, rows: int, parameters: int, epsilon: float, delta: float) -> float:
    sampling = min(1.0, training.batch_size / rows)
    steps = training.rounds * training.epochs * math.ceil(rows / training.batch_size)
    sigma = sampled_noise_multiplier(epsilon, delta, sampling, steps)
    return sigma * math.sqrt(parameters) / training.batch_size
