"""Attacks do what they say, and nothing else."""

import numpy as np
import pytest

from scenarios.clients.poisons import Trigger, backdoored, flipped_labels, free_ridden, scaled, sign_flipped

X = np.random.default_rng(0).random((40, 3, 4)).astype(np.float32)
Y = np.arange(40) % 3


def test_labels_are_turned_round() -> None:
    assert flipped_labels(np.array([0, 1, 2, 0]), 3).tolist() == [2, 1, 0, 2]
    assert flipped_labels(np.array([0, 1]), 2).tolist() == [1, 0]
    assert flipped_labels(np.array([], np.int64), 2).tolist() == []
    with pytest.raises(ValueError, match="y holds 0 to 3; allowed: 0 to 2"):
        flipped_labels(np.array([0, 3]), 3)


def test_a_trigger_sets_its_features_in_the_row_and_counts_success_on_rows_of_other_classes():
    before = X.copy()
    found = Trigger({1: 5.0, 11: -2.0}, 2).put_on(X)
    assert (found[:, 0, 1] == 5).all()
    assert (found[:, 2, 3] == -2).all()
    assert (found != X).sum() == 80
    np.testing.assert_array_equal(X, before)
    for values in ({}, {12: 1.0}, {-1: 1.0}):
        with pytest.raises(ValueError, match="from 0 to 11"):
            Trigger(values, 0).put_on(X)
    trigger = Trigger({0: 9.0}, 1)
    assert trigger.success(np.array([1, 1, 0, 1]), np.array([1, 0, 0, 2])) == pytest.approx(2 / 3)
    assert trigger.success(np.array([1, 1]), np.array([1, 1])) == 0.0


def test_a_share_of_the_rows_gets_the_backdoor() -> None:
    trigger = Trigger({0: 9.0}, 1)
    x, y = backdoored(X, Y, trigger, 0.25, np.random.default_rng(1))
    poisoned = x[:, 0, 0] == 9
    assert poisoned.sum() == 10
    assert (y[poisoned] == 1).all()
    np.testing.assert_array_equal(y[~poisoned], Y[~poisoned])
    np.testing.assert_array_equal(x[~poisoned], X[~poisoned])
    assert (X[:, 0, 0] < 1).all()
    again = backdoored(X, Y, trigger, 0.25, np.random.default_rng(1))
    np.testing.assert_array_equal(again[0], x)
    assert backdoored(X, Y, trigger, 1.0, np.random.default_rng(1))[1].tolist() == [1] * 40


def test_updates_are_scaled_or_turned_and_a_free_rider_sends_what_it_received():
    start, weights = np.array([1, 2], np.float32), np.array([2, 0], np.float32)
    assert scaled(weights, start, 5.0).tolist() == [6, -8]
    assert sign_flipped(weights, start, 2.0).tolist() == [-1, 6]
    assert scaled(weights, start, 1.0).dtype == np.float32
    start = np.zeros(20_000, np.float32)
    np.testing.assert_array_equal(free_ridden(start + 3, 0.0, np.random.default_rng(0)), start + 3)
    assert free_ridden(start, 0.1, np.random.default_rng(0)).std() == pytest.approx(0.1, rel=0.03)
    with pytest.raises(ValueError, match=r"noise_std = -1\.0"):
        free_ridden(start, -1.0, np.random.default_rng(0))
