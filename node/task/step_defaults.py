"""Defaults for training by shared private steps, by the rows of all members together and epsilon.

`python -m benchmarks rates` is their origin: it simulates such runs on public data sets and compares settings
on held-out training rows; docs/step-defaults.md has its findings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from node.task.sections import ADDITIVE, ModelSection

_EXPECTED_BATCH, _LARGE_BATCH = 4096, 8192  # rows; if there are fewer, all take part in every step
_ROWS_FOR_LARGE_BATCH = 320_000  # at epsilon 1
_STEPS, _REPORT_EVERY = 200, 10
_CLIPPING_RADIUS, _CLIPPING_RADIUS_ON_BODY = 1.0, 0.1
_ROWS_FOR_RATE_1 = 80_000  # at epsilon 1
_EXPONENT_BELOW = 0.75
_LEAST_RATE, _LARGEST_RATE = 1e-3, 8.0
_LARGEST_RATE_ON_CELLS = 1000.0
_FEWEST_CELLS, _MOST_CELLS, _PART_OF_ROOT = 4, 16, 0.25


@dataclass(frozen=True)
class StepDefaults:
    """Defaults of a run of shared private steps.

    `expected_batch` is the mean number of rows in a step's sample, of all members together; each row is
    sampled with the probability expected_batch / rows. `steps` is a multiple of `report_every`. The rate is
    for SGD with momentum 0.9, constant, on the noisy sum of clipped gradients over `expected_batch`;
    `clipping_radius` is the largest L2 norm of a row's gradient.
    """

    expected_batch: int
    steps: int
    report_every: int
    learning_rate: float
    clipping_radius: float


def step_defaults(rows: int, epsilon: float, frozen_body: bool) -> StepDefaults:
    """Returns the defaults for `rows`, of all members together, and a budget of `epsilon` for the whole run.

    `frozen_body` says whether only a linear layer is trained, on features of a body that stays as it is. Rows
    and epsilon matter as a product: as many times as it is larger, so much smaller is the noise of a sum
    against the sum. The rate grows in proportion to it, below 1 with its power of 3/4, and has one
    significant digit. Raises ValueError.
    """
    if type(rows) is not int or rows < 1:
        raise ValueError(f"rows = {rows} is not allowed: a whole number of 1 and more")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon = {epsilon} is not allowed: a finite number above 0")
    radius = _CLIPPING_RADIUS_ON_BODY if frozen_body else _CLIPPING_RADIUS
    at_epsilon_1 = rows * epsilon
    batch = _EXPECTED_BATCH if at_epsilon_1 < _ROWS_FOR_LARGE_BATCH else _LARGE_BATCH
    found = at_epsilon_1 / _ROWS_FOR_RATE_1
    rate = min(_LARGEST_RATE, max(_LEAST_RATE, found if found > 1 else found**_EXPONENT_BELOW))
    return StepDefaults(
        expected_batch=min(rows, batch),
        steps=_STEPS,
        report_every=_REPORT_EVERY,
        learning_rate=float(f"{rate / radius:.1g}"),
        clipping_radius=radius,
    )


def step_defaults_of(model: ModelSection, rows: int, epsilon: float) -> StepDefaults:
    """Returns the defaults for a model; see `step_defaults`.

    A row of an additive model is its cells, each 1 / sqrt(columns + 1). So its gradient has a norm of at most
    1, and a step bends the loss by 1 / (columns + 1) of what it would with a 1 in each cell: the table's rate
    is half of that for such cells.
    """
    if model.cls != ADDITIVE:
        return step_defaults(rows, epsilon, model.body is not None)
    found = step_defaults(rows, epsilon, frozen_body=False)
    rate = found.learning_rate * (len(model.args.get("columns", ())) + 1) / 2
    return replace(found, learning_rate=float(f"{min(_LARGEST_RATE_ON_CELLS, rate):.2g}"))


def cells_under_noise(rows: int, epsilon: float) -> int:
    """Returns how many cells the values of a column of numbers have at most, in private additive models.

    That is a quarter of the cube root of `rows` (of all members) * `epsilon`, from 4 to 16. The best number
    of cells of a histogram grows with the cube root of its rows (Freedman & Diaconis 1981), and noise counts
    as fewer rows; the quarter is from held-out training rows (docs/step-defaults.md).
    """
    return min(_MOST_CELLS, max(_FEWEST_CELLS, round(_PART_OF_ROOT * (rows * epsilon) ** (1 / 3))))
