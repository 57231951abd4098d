"""Cells from noised histograms: how far one row moves them, what they cost, and that they are even."""

import math

import numpy as np
import pytest

from mechanisms.accounting.ledger import Ledger, privacy_spent
from mechanisms.mechanism import CountPlan
from mechanisms.noise.randomness import SeededWords
from mechanisms.noised_counts import CountNoise, count_noise
from node.jobs.additive.private_cells import NumberValues, PrivateCells
from node.task.sections import CELL_SHARE, CELL_SUMS
from scenarios.swarms.job_sums import replay_job

RANGES = ((0.0, 8.0), (-2.0, 2.0), (0.0, 10.0))
MEMBERS, MOST_CELLS = 3, 16
RNG = np.random.default_rng(13)
QUIET = CountNoise(1e-3, 2, 1)


def made(n=9000):
    """Skewed with half of the rows at one value, even, and a column of missing values but for a few rows."""
    skewed = np.where(RNG.random(n) < 0.5, 0.004, RNG.exponential(0.3, n).clip(0, 8))
    rare = np.where(RNG.random(n) < 0.01, 5.0, np.nan)
    return np.stack([skewed, RNG.uniform(-2, 2, n), rare], 1).astype(np.float32)


def cell_noise(epsilon):
    return count_noise(CountPlan(CELL_SHARE, CELL_SUMS), epsilon, 1e-5, honest=1)


def job(values, noise, persons=None, seed=0, ranges=RANGES):
    words = SeededWords(np.random.default_rng(seed))
    return PrivateCells(ranges, NumberValues(values, persons), noise, MEMBERS, MOST_CELLS, words)


def learnt(values, noise, ranges=RANGES):
    jobs = [
        job(part, noise, seed=seed, ranges=ranges)
        for seed, part in enumerate(np.array_split(values, MEMBERS))
    ]
    found = replay_job(jobs)
    assert (found.sums, len(found.base)) == (2, jobs[0].length)
    return jobs[0].edges(found.base), found.base


def shares(values, edges):
    return np.bincount(np.searchsorted(edges, values[~np.isnan(values)], "right"), minlength=len(edges) + 1)


@pytest.mark.parametrize(("epsilon", "cells"), [(1.0, 6), (8.0, 15)])
def test_cells_are_even_under_noise(epsilon, cells):
    values = made()
    (skewed, even, _), _ = learnt(values, cell_noise(epsilon))
    assert cells <= len(even) + 1 <= MOST_CELLS
    rows = shares(values[:, 1], even)
    assert rows.max() < 3 * len(values) / cells
    heavy = shares(values[:, 0], skewed)
    assert (heavy.max(), len(heavy) > 3) == (pytest.approx(4500, abs=300), True)


def test_edges_rise_where_a_range_has_fewer_numbers_than_pieces():
    narrow = ((8.0, 8.00001), (1.0, 1.0))
    values = np.random.default_rng(1).uniform(*np.array(narrow).T, (3000, 2)).astype(np.float32)
    for edges in learnt(values, cell_noise(8.0), narrow)[0]:
        assert list(edges) == sorted(set(edges))


@pytest.mark.parametrize("generation", [0, 1])
def test_one_row_moves_a_histogram_by_one_in_each_column_with_a_value(generation):
    """The noise is so small that it rounds away. Neighbours have the same base: that of all rows."""
    values = made()
    _, base = learnt(values, QUIET)
    whole, farthest = job(values, QUIET).contribution(base, generation).words, 0.0
    for row in [*range(10), *np.flatnonzero(~np.isnan(values[:, 2]))[:20]]:
        less = job(np.delete(values, row, 0), QUIET).contribution(base, generation).words
        moved = (whole - less).view(np.int32) * job(values, QUIET).grid.unit
        there = int((~np.isnan(values[row])).sum())
        assert (moved >= -0.1).all()
        assert np.abs(moved).sum() < there + 0.5
        farthest = max(farthest, float(np.square(moved).sum()))
    assert 2 - 0.1 < farthest < 3.1  # of m = 3 columns


def test_a_person_counts_as_one_row_at_most():
    values = made(500)
    persons = np.repeat(np.arange(250), 2)
    base = job(values, QUIET).initial()
    rows, both = (
        job(values, QUIET, of).contribution(base, 0).words.view(np.int32).sum() for of in (None, persons)
    )
    one = job(values[2:], QUIET, persons[2:] - 1).contribution(base, 0).words.view(np.int32).sum()
    unit = job(values, QUIET).grid.unit
    assert both * unit == pytest.approx(rows * unit / 2, rel=0.05)
    assert (both - one) * unit <= len(RANGES) + 0.1


def test_both_histograms_cost_a_tenth_of_the_budget():
    subject = job(made(100), cell_noise(2.0))
    events = [event for generation in range(2) for event in subject.cost(generation)]
    spent = privacy_spent(Ledger.of(events), 1e-5)
    assert spent.epsilon == pytest.approx(0.2, rel=2e-3)
    assert spent.epsilon <= 0.2


def test_the_noise_of_two_honest_members_is_that_of_the_event():
    noise = cell_noise(1.0)
    empty, found = np.zeros((0, 3), np.float32), []
    for seed in range(2):
        subject = job(empty, noise, seed=seed)
        words = subject.contribution(subject.initial(), 0).words
        found.append(words.view(np.int32) * subject.grid.unit)
    expected = noise.noise_multiplier * math.sqrt(len(RANGES))
    assert np.std(np.sum(found, 0)) == pytest.approx(expected, rel=0.15)
