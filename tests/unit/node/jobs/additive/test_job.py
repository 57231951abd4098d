"""The additive job by a swarm in one process: its members share nothing but the sum of their words."""

import numpy as np
import pytest
import torch

from node.jobs.additive.job import AdditiveJob
from node.jobs.additive.state import Plan
from node.system.errors import UserError
from scenarios.swarms.job_sums import replay_job

RNG = np.random.default_rng(7)
ROWS, CELLS = 1500, 12
COLUMNS = (("number", 1), ("number", 2), ("boolean", 1), ("category", 4))
RANGES = ((-3.0, 3.0), (-0.5, 10.0))


def rows(n=ROWS):
    """A line, a bend at a heavy value with values missing, yes and no, a category with a rare value."""
    line = RNG.uniform(-3, 3, n)
    bent = np.where(RNG.random(n) < 0.5, -0.2, RNG.exponential(2, n).clip(-0.5, 10))
    missing, truth = RNG.random(n) < 0.1, RNG.integers(0, 2, n)
    group = RNG.choice(5, n, p=[0.4, 0.3, 0.249, 0.001, 0.05])
    x = np.zeros((n, 8), np.float32)
    x[:, 0], x[:, 1], x[:, 2], x[:, 3] = line, np.where(missing, 0, bent), missing, 2 * truth - 1
    x[:, 4:] = np.eye(5, 4)[group]
    bend = np.where(missing, -1.0, np.where(bent < 0, 1.0, np.sin(bent)))
    return torch.from_numpy(x), 0.8 * line + bend + 0.7 * truth + np.array([0, 1, -1, 0, 0.5])[group] - 0.5


def learn(plan, sites):
    """All sums of members with rows and targets. Returns a job, the last base, and the number of sums."""
    jobs = [AdditiveJob(plan, x, y) for x, y in sites]
    found = replay_job(jobs)
    assert (len(found.base), np.isfinite(found.base).all()) == (jobs[0].length, True)
    return jobs[0], found.base, found.sums


def learnt(plan, x, y, sites=3):
    parts = np.array_split(np.arange(len(y)), sites)
    job, base, _ = learn(plan, [(x[part], y[part]) for part in parts])
    return job.model(base)


def scores(model, x):
    return model(x).detach().double().numpy()


def area(y, score):
    order = np.argsort(np.argsort(score))
    return (order[y == 1].mean() - (y.sum() - 1) / 2) / (len(y) - y.sum())


NUMBERS = Plan(COLUMNS, CELLS, RANGES, ())
CLASSES = Plan(COLUMNS, CELLS, RANGES, (1.0, 1.0))


def test_numbers_are_learnt_by_each_columns_own_curve():
    x, signal = rows()
    model = learnt(NUMBERS, x, (signal + RNG.normal(0, 0.3, ROWS)).astype(np.float32))
    test, expected = rows()
    assert np.corrcoef(scores(model, test)[:, 0], expected)[0, 1] > 0.99
    line, bent, truth, _ = (model.values[0, column.places].numpy() for column in model.body.columns)
    middles = np.interp(np.arange(CELLS) + 0.5, [0, CELLS], [-3, 3])
    assert line == pytest.approx(0.8 * middles, abs=0.15)
    assert truth[1] - truth[0] == pytest.approx(0.7, abs=0.05)
    assert bent[0] - bent[-1] == pytest.approx(2, abs=0.1)  # the heavy value, and the missing ones
    assert (model.values * model.rows)[0, :CELLS].sum() == pytest.approx(0, abs=0.5)


def test_bands_have_the_noise_of_the_rows():
    """Of a column of two even cells, each is off by half of what their difference is: sd / sqrt(rows)."""
    x, signal = rows()
    model = learnt(NUMBERS, x, (signal + RNG.normal(0, 2, ROWS)).astype(np.float32))
    truth = model.body.columns[2].places
    assert model.errors[0, truth][:2].numpy() == pytest.approx([2 / np.sqrt(ROWS)] * 2, rel=0.1)
    assert (model.values[0, truth][:2] - torch.tensor([-0.35, 0.35])).abs().max() < 4 * 2 / np.sqrt(ROWS)


def test_classes_are_learnt_alike_by_three_sites_and_by_one():
    x, signal = rows()
    y = (RNG.random(ROWS) < 1 / (1 + np.exp(-2 * signal))).astype(np.int64)
    swarm, pooled = learnt(CLASSES, x, y), learnt(CLASSES, x, y, sites=1)
    test, expected = rows()
    assert scores(swarm, test) == pytest.approx(scores(pooled, test), abs=1e-3)
    assert np.corrcoef(scores(swarm, test)[:, 0], expected)[0, 1] > 0.97
    assert (swarm.rows[:CELLS].sum(), swarm.rows[CELLS : 2 * CELLS + 1].sum()) == (ROWS, ROWS)


def test_a_weight_is_as_that_many_rows():
    x, signal = rows()
    y = (RNG.random(ROWS) < 1 / (1 + np.exp(-signal))).astype(np.int64)
    weighted = learnt(Plan(COLUMNS, CELLS, RANGES, (1.0, 3.0)), x, y)
    chosen = np.concatenate([np.arange(ROWS), np.repeat(np.flatnonzero(y), 2)])
    repeated = learnt(CLASSES, x[chosen], y[chosen])
    assert np.abs(scores(weighted, x) - scores(repeated, x)).mean() < 0.25  # log 3 is 1.1


def test_three_classes_have_one_logit_each():
    x, signal = rows()
    y = np.digitize(signal, [-0.5, 1.0])
    model = learnt(Plan(COLUMNS, 6, RANGES, (1.0, 1.0, 1.0)), x, y)
    chances = torch.softmax(model(x), 1)
    assert (chances.argmax(1).numpy() == y)[y != 1].mean() > 0.9
    assert chances.argmax(1).bincount(minlength=3).min() > 0


def test_an_interaction_alone_is_none_of_its_curves():
    x = torch.from_numpy(RNG.normal(size=(4000, 2)).clip(-3, 3).astype(np.float32))
    y = (RNG.random(4000) < torch.sigmoid(3 * x[:, 0] * x[:, 1]).numpy()).astype(np.int64)
    plan = Plan((("number", 1),) * 2, 12, ((-3.0, 3.0),) * 2, (1.0, 1.0))
    model = learnt(plan, x[:2000], y[:2000])
    assert area(y[2000:], scores(model, x[2000:])[:, 0]) == pytest.approx(0.5, abs=0.05)


def test_columns_that_say_the_same_share_their_effect():
    x = torch.from_numpy(np.repeat(RNG.uniform(-1, 1, (2000, 1)), 2, axis=1).astype(np.float32))
    plan = Plan((("number", 1),) * 2, 12, ((-1.0, 1.0),) * 2, ())
    model = learnt(plan, x, x[:, 0].numpy() * 2)
    assert scores(model, x)[:, 0] == pytest.approx(2 * x[:, 0].numpy(), abs=0.3)
    assert model.values.abs().max() < 2.5


def test_a_small_site_makes_cells_coarser_for_all():
    x, signal = rows()
    sites = [(x[part], signal[part]) for part in np.split(np.arange(ROWS), [1320, 1410])]
    job, base, _ = learn(NUMBERS, sites)
    assert (job.model(base).rows[:CELLS] > 0).sum() == 8  # 90 rows are 3 for each of 9 + 2 x 8 + 1 values


def test_too_few_rows_are_refused():
    x, signal = rows(53)
    words = (
        "needs 54 rows here, three for each value of its 4 columns; there are 53: give more rows, leave out"
    )
    with pytest.raises(UserError, match=words):
        AdditiveJob(NUMBERS, x, signal)


def test_the_first_counts_say_that_a_member_has_too_few():
    x, signal = rows(54)
    job = AdditiveJob(NUMBERS, x, signal)
    words = job.contribution(job.initial(), 0).words
    words[1 : 1 + len(NUMBERS.levels)] = 1
    base = job.following(job.initial(), 0, words, ())
    for generation in (1, 2):
        base = job.following(base, generation, job.contribution(base, generation).words, ())
    last = job.contribution(base, 3).words
    with pytest.raises(UserError, match="a member has fewer than three rows for each value"):
        job.following(base, 3, last, ())


def test_just_as_many_rows_as_a_grid_of_cells_needs_are_not_too_few_for_it():
    """54 are three for each of 18 values, which is the coarsest grid."""
    job = AdditiveJob(NUMBERS, *rows(54))
    too_few = job.contribution(job.initial(), 0).words[1 : 1 + len(NUMBERS.levels)]
    assert too_few.tolist() == [1] * (len(NUMBERS.levels) - 1) + [0]


def test_a_table_without_numbers_has_one_sum_of_counts():
    x, signal = rows()
    plan = Plan(COLUMNS[2:], CELLS, (), (1.0, 1.0))
    job, base, sums = learn(plan, [(x[:, 3:], (signal > 0).astype(np.int64))])
    assert sums <= 5
    assert job.model(base).values[0, 1] > job.model(base).values[0, 0]


def test_a_member_with_other_rows_goes_on_from_any_base_with_the_same_bits():
    x, signal = rows()
    job = AdditiveJob(NUMBERS, x[:700], signal[:700])
    base, losses = job.initial(), []
    for generation in range(7):
        found = job.contribution(base, generation)
        other = AdditiveJob(NUMBERS, x[700:], signal[700:])
        summed = found.words + other.contribution(base, generation).words
        assert job.cost(generation) == ()
        before, base = base, job.following(base, generation, summed, ())
        assert other.following(before, generation, summed, ()).tobytes() == base.tobytes()
        losses.append(found.loss)
    assert losses[:4] == [None] * 4
    assert losses[6] < losses[4] / 4
