"""Boosted trees by a swarm in one process, alone and after curves."""

import numpy as np
import pytest
import torch

from node.jobs.additive.job import AdditiveJob
from node.jobs.additive.state import Plan
from node.jobs.trees.job import Forest, Rows, TreesJob
from node.models.tree_ensemble import grown
from scenarios.swarms.job_sums import replay_job

RNG = np.random.default_rng(23)
COLUMNS = (("number", 2), ("number", 1), ("category", 3))
RANGES = ((-3.0, 3.0),) * 2
CLASSES, NUMBERS = Plan(COLUMNS, 12, RANGES, (1.0, 1.0)), Plan(COLUMNS, 12, RANGES, ())


def rows(n=1500):
    """Rows whose score is a product of two columns, missing values of the first, and a category."""
    first, second = (RNG.normal(size=n).clip(-3, 3) for _ in range(2))
    missing, group = RNG.random(n) < 0.1, RNG.integers(0, 3, n)
    x = np.stack([np.where(missing, 0, first), missing, second, *np.eye(3)[group].T], 1).astype(np.float32)
    return torch.from_numpy(x), 3 * np.where(missing, -0.5, first * second) + np.array([0, 1.0, -1])[group]


def learn(plan, forest, x, y, sites=3, held=5):
    """All sums of members; each holds out every `held`-th row. Returns the jobs, the base, the sums."""
    jobs = []
    for part in np.array_split(np.arange(len(y)), sites):
        out = part[::held] if held else part[:0]
        rest = np.setdiff1d(part, out)
        jobs.append(TreesJob(plan, forest, Rows(x[rest], y[rest]), Rows(x[out], y[out])))
    found = replay_job(jobs)
    assert (len(found.base), jobs[0].cost(found.sums)) == (jobs[0].length, ())
    return jobs, found.base, found.sums


def scores(model, x):
    return model(x).detach().double().numpy()


def area(y, score):
    order = np.argsort(np.argsort(score))
    return (order[y == 1].mean() - (y.sum() - 1) / 2) / (len(y) - y.sum())


@pytest.mark.parametrize("curve_sums", [0, 8])
def test_an_interaction_is_found(curve_sums):
    x, signal = rows()
    y = (RNG.random(len(signal)) < 1 / (1 + np.exp(-signal))).astype(np.int64)
    forest = Forest(25, 3, curve_sums)
    jobs, base, sums = learn(CLASSES, forest, x, y)
    assert sums == {0: 6, 8: 12}[curve_sums] + 25 * 3 == jobs[0].most_sums
    assert jobs[1].made(base).startswith("curves and " if curve_sums else "2")
    assert jobs[1].made(jobs[1].initial()) == ""
    model = jobs[1].model(base)
    test, expected = rows()
    truth = (RNG.random(len(expected)) < 1 / (1 + np.exp(-expected))).astype(np.int64)
    assert area(truth, scores(model, test)[:, 0]) > 0.75
    if curve_sums:
        alone = model.added_together(test)
        assert area(truth, scores(model, test)[:, 0] - alone[:, 0].numpy()) < 0.7
    again = type(model)(COLUMNS, 1, cells=12, trees=25, depth=3)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(test), model(test))


def test_trees_that_do_not_help_are_none_and_the_curves_are_of_all_rows():
    x, _ = rows(900)
    y = RNG.integers(0, 2, 900)
    forest = Forest(60, 2, 8, patience=10)
    jobs, base, sums = learn(CLASSES, forest, x, y)
    model = jobs[0].model(base)
    kept = grown(model.interactions.nodes[0])
    assert kept < 20
    told = f"curves and {kept} tree" if kept else "curves alone: 11 trees did not lower the loss"
    assert jobs[0].made(base).startswith(told)
    assert f"{kept + 11}" in jobs[0].made(base)
    assert sums == 12 + (kept + 11) * 2, "the loss comes with the next tree, which ends its round"
    curves = [AdditiveJob(CLASSES, x[part], y[part]) for part in np.array_split(np.arange(900), 3)]
    assert torch.equal(model.values, curves[0].model(replay_job(curves).base).values)


def test_without_rows_held_out_all_trees_stay():
    x, signal = rows(600)
    jobs, base, sums = learn(NUMBERS, Forest(25, 2, rate=0.2), x, signal / 3, held=0)
    assert sums == 4 + 50
    assert jobs[0].made(base) == "25 trees"
    model = jobs[0].model(base)
    assert (model.trees.nodes[0, :, 0, 0] > 0).all()
    before = np.square(signal / 3).mean()
    assert np.square(scores(model, x)[:, 0] - signal / 3).mean() < 0.75 * before


def test_three_classes_have_trees_of_their_own():
    x, signal = rows()
    y = np.digitize(signal, [-1.0, 1.0])
    jobs, base, _ = learn(Plan(COLUMNS, 12, RANGES, (1.0, 1.0, 1.0)), Forest(8, 3), x, y, held=0)
    chances = torch.softmax(jobs[0].model(base)(x), 1)
    assert (chances.argmax(1).numpy() == y).mean() > 0.7


def test_a_new_process_with_other_rows_goes_on_with_the_same_bits():
    x, signal = rows(900)
    y = (signal > 0).astype(np.int64)
    forest, none = Forest(3, 2), Rows(x[:0], y[:0])
    job, base = TreesJob(CLASSES, forest, Rows(x[:450], y[:450]), none), None
    base = job.initial()
    for generation in range(9):
        fresh = TreesJob(CLASSES, forest, Rows(x[:450], y[:450]), none)
        words = job.contribution(base, generation).words
        assert (fresh.contribution(base, generation).words == words).all()
        other = TreesJob(CLASSES, forest, Rows(x[450:], y[450:]), none)
        summed = words + other.contribution(base, generation).words
        after = job.following(base, generation, summed, ())
        assert other.following(base, generation, summed, ()).tobytes() == after.tobytes()
        base = after
