"""The tables of defaults, for shared private steps and for training without privacy."""

import math
from pathlib import Path

import numpy as np
import pytest

from node.system.errors import ConfigError
from node.task.load import read_task
from node.task.plain_defaults import plain_defaults, power_of_two
from node.task.shared_noise_keys import DISTRIBUTED
from node.task.step_defaults import cells_under_noise, step_defaults

ROWS = (1, 2, 7, 100, 1438, 4095, 4096, 4097, 32_561, 60_000, 1_000_000, 1_000_000_000)
EPSILONS = (1e-6, 0.1, 1.0, 3.0, 8.0, 1e6)


def read(rows, epsilon, **model):
    """The plan of a task that leaves all to the table."""
    sizes = {"class": "node.models:MLP", "args": {"sizes": [3, 2]}}
    return read_task(
        {
            "task": {"name": "own"},
            "model": {**sizes, **model},
            "train": {"expected_rows": rows},
            "privacy": {"mechanism": DISTRIBUTED, "epsilon": epsilon},
        }
    )


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_number_of_rows_gives_a_task_that_may_run(rows, epsilon):
    task = read(rows, epsilon)
    plan = task.step_plan
    assert 0 < plan.sampling_probability <= 1
    assert plan.sampling_probability * rows == pytest.approx(plan.expected_batch)
    assert 1 <= plan.expected_batch <= rows
    assert plan.steps % plan.report_every == 0
    assert task.train.rounds == plan.steps // plan.report_every
    assert 0 < task.train.learning_rate * task.privacy.clipping_radius <= 8


@pytest.mark.parametrize("frozen_body", [False, True])
def test_more_rows_or_a_larger_epsilon_never_shorten_a_step(frozen_body):
    rates = np.array([[step_defaults(n, e, frozen_body).learning_rate for n in ROWS] for e in EPSILONS])
    assert (np.diff(rates, axis=0) >= 0).all()
    assert (np.diff(rates, axis=1) >= 0).all()


def test_rows_are_counted_and_epsilon_is_a_budget():
    for rows in (0, -3, 2.5, True):
        with pytest.raises(ValueError, match=f"rows = {rows} is not allowed: a whole number of 1 and more"):
            step_defaults(rows, 1.0, frozen_body=False)
    for epsilon in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"epsilon = {epsilon} is not allowed: a finite number above 0"):
            step_defaults(100, epsilon, frozen_body=False)
    with pytest.raises(ConfigError, match=r"train\.expected_rows = 0 is refused"):
        read(0, 1.0)
    for sizes in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1.5, 1, 1), (True, 1, 1)):
        with pytest.raises(ValueError, match="is not allowed: a whole number of 1 and more"):
            plain_defaults(MLP, *sizes)


def test_the_page_has_these_rates():
    page = (Path(__file__).parents[4] / "docs" / "step-defaults.md").read_text("utf-8")
    lines = page[page.index("| rows | rate at epsilon 1 |") :].split("\n\n")[0].splitlines()[2:]
    said = [[float(cell.replace(",", "")) for cell in line.strip("| ").split("|")] for line in lines]
    assert len(said) == 7
    for rows, *rates in said:
        for epsilon, rate in zip((1.0, 3.0, 8.0), rates, strict=True):
            assert step_defaults(int(rows), epsilon, frozen_body=False).learning_rate == rate


def test_a_linear_layer_on_a_fixed_body_takes_the_same_steps_with_a_tenth_of_the_clip():
    whole, head = (step_defaults(60_000, 1.0, frozen_body=body) for body in (False, True))
    assert (whole.clipping_radius, head.clipping_radius) == (1.0, 0.1)
    assert head.learning_rate == pytest.approx(10 * whole.learning_rate)
    assert (whole.steps, whole.expected_batch) == (head.steps, head.expected_batch)


@pytest.mark.parametrize(
    ("rows", "epsilon", "batch"),
    [(4095, 1.0, 4095), (4096, 1.0, 4096), (60_000, 5.0, 4096), (40_000, 8.0, 8192), (5000, 64.0, 5000)],
)
def test_a_step_has_more_rows_where_noise_is_small(rows, epsilon, batch):
    assert step_defaults(rows, epsilon, frozen_body=False).expected_batch == batch


LINEAR, MLP = "node.models:Linear", "node.models:MLP"


@pytest.mark.parametrize(
    ("model", "width", "rate"),
    [
        (LINEAR, 1, 0.03),
        (LINEAR, 100, 0.03),
        (LINEAR, 300, 0.01),
        (LINEAR, 1_000_000, 0.001),
        (MLP, 100, 0.003),
        (MLP, 1000, 0.003),
        (MLP, 2000, 0.002),
        ("somebody:Net", 1_000_000, 0.001),
    ],
)
def test_a_rate_by_model_and_width(model, width, rate):
    assert plain_defaults(model, width, 5000, 20).learning_rate == rate


@pytest.mark.parametrize(
    ("rows", "rounds", "batch", "epochs"),
    [(1, 20, 8, 10), (38, 20, 8, 2), (200, 20, 8, 1), (2000, 20, 32, 1), (50_000, 20, 64, 1), (200, 2, 8, 4)],
)
def test_batches_by_rows_and_enough_steps(rows, rounds, batch, epochs):
    found = plain_defaults(MLP, 10, rows, rounds)
    assert (found.batch_size, found.epochs) == (batch, epochs)
    assert (found.optimizer, found.schedule) == ("adam", "cosine")


def test_powers_of_two():
    assert [power_of_two(wanted, 8, 64) for wanted in (0, 9, 16, 31.9, 1e9)] == [8, 8, 16, 16, 64]


@pytest.mark.parametrize(("columns", "times"), [(1, 1.0), (14, 7.5)])
def test_steps_on_cells_are_longer_by_half_of_what_their_norm_takes(columns, times):
    task = read(
        32_561, 1.0, **{"class": "node.models:Additive", "args": {"columns": [["number", 1]] * columns}}
    )
    assert task.train.learning_rate == pytest.approx(times * read(32_561, 1.0).train.learning_rate, rel=0.05)
    assert task.privacy.clipping_radius == 1.0


@pytest.mark.parametrize(
    ("rows", "epsilon", "cells"), [(100, 1.0, 4), (32_000, 1.0, 8), (32_000, 3.0, 11), (10_000_000, 8.0, 16)]
)
def test_cells_under_noise_grow_with_the_cube_root_of_rows_and_epsilon(rows, epsilon, cells):
    assert cells_under_noise(rows, epsilon) == cells
