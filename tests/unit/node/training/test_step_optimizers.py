"""The step that all members take: beside torch's optimisers, and beside arithmetic on single numbers."""

import math

import numpy as np
import pytest
import torch

from node.task.load import load_task
from node.training.step_optimizers import StepOptimizer

SIZE, STEPS = 7, 40
BASE_SETS = ("privacy.mechanism=distributed-dp-sgd", f"train.steps={STEPS}", "train.report_every=4")


def task(*sets):
    return load_task("digits", [*BASE_SETS, "train.learning_rate=0.3", "train.expected_batch=16", *sets])


def optimizer(*sets) -> StepOptimizer:
    made = task(*sets)
    return StepOptimizer(made.train, made.step_plan, SIZE)


def sums():
    return np.random.default_rng(1).normal(0, 20, (STEPS, SIZE))


def start():
    return np.random.default_rng(2).normal(size=SIZE).astype(np.float32)


def run(subject: StepOptimizer):
    base = subject.initial(start())
    for step, summed in enumerate(sums(), 1):
        base = subject.following(base, step, summed)
        yield base


@pytest.mark.parametrize(("name", "decay"), [("sgd", 0.0), ("sgd", 0.01), ("adam", 0.0), ("adam", 0.01)])
def test_steps_are_those_of_torch(name, decay):
    """Torch adds up in another order and fuses, so the last bits may differ."""
    parameter = torch.nn.Parameter(torch.from_numpy(start()))
    theirs = (
        torch.optim.SGD([parameter], 0.3, 0.9, weight_decay=decay)
        if name == "sgd"
        else torch.optim.Adam([parameter], 0.3, (0.9, 0.999), weight_decay=decay)
    )
    subject = optimizer(f"train.optimizer={name}", f"train.weight_decay={decay}")
    for summed, base in zip(sums(), run(subject), strict=True):
        parameter.grad = torch.from_numpy((summed / 16).astype(np.float32))
        theirs.step()
        np.testing.assert_allclose(subject.parameters(base), parameter.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_each_bit_of_a_momentum_step_is_that_of_single_operations():
    f = np.float32
    subject = optimizer("train.weight_decay=0.01")
    values = [[value, value, f(0)] for value in start()]
    for step, (summed, base) in enumerate(zip(sums(), run(subject), strict=True), 1):
        share = f(min(1 - 5 / STEPS, step / (9 + step))), f(1 - min(1 - 5 / STEPS, step / (9 + step)))
        for place, (before, average, velocity) in enumerate(values):
            gradient = f(f(summed[place] / 16) + f(f(0.01) * before))
            moving = f(f(f(0.9) * velocity) + gradient)
            after = f(before - f(f(0.3) * moving))
            values[place] = [after, f(f(share[0] * average) + f(share[1] * after)), moving]
        assert base.tolist() == [float(value) for kind in zip(*values, strict=True) for value in kind]


@pytest.mark.parametrize(("name", "vectors"), [("sgd", 3), ("adam", 4)])
def test_a_base_holds_parameters_their_average_and_the_state(name, vectors):
    subject = optimizer(f"train.optimizer={name}")
    base = subject.initial(start())

    assert (len(base), subject.words, base.dtype) == (vectors * SIZE, vectors * SIZE, np.float32)
    assert subject.parameters(base).tolist() == subject.average(base).tolist() == start().tolist()
    assert not base[2 * SIZE :].any()


def test_the_average_forgets_the_start_and_lies_among_the_iterates():
    subject = optimizer()
    bases = list(run(subject))
    iterates = np.array([subject.parameters(base) for base in bases])
    weights, product = [], 1.0
    for step in range(STEPS, 0, -1):
        share = min(1 - 5 / STEPS, step / (9 + step))
        weights.insert(0, product * (1 - share))
        product *= share
    expected = np.tensordot(weights, iterates, 1) + product * start()

    np.testing.assert_allclose(subject.average(bases[-1]), expected, rtol=1e-4, atol=1e-4)
    assert product < 0.01


def test_the_schedule_counts_rounds_of_several_steps():
    """With a factor of 0 from the second round on, the fifth step leaves the parameters where they are."""
    subject = optimizer("train.schedule=step", "train.schedule_args={every=1, factor=0}", "train.momentum=0")
    bases = list(run(subject))

    assert subject.parameters(bases[3]).tolist() != subject.parameters(bases[2]).tolist()
    assert subject.parameters(bases[4]).tolist() == subject.parameters(bases[3]).tolist()


def test_short_runs_take_the_last_iterate():
    made = task("train.steps=4", "train.report_every=1")
    subject = StepOptimizer(made.train, made.step_plan, SIZE)
    base = subject.following(subject.initial(start()), 1, sums()[0])

    assert subject.average(base).tolist() == subject.parameters(base).tolist()


def test_adams_powers_are_products():
    """A library's pow may differ in its last bit from another's; a product of float64 numbers does not."""
    subject = optimizer("train.optimizer=adam")
    *_, base = run(subject)
    product = 1.0
    for _ in range(STEPS):
        product *= 0.9

    assert product == pytest.approx(math.pow(0.9, STEPS))
    assert np.isfinite(base).all()
