"""Attacks do what they say, and nothing else."""

import numpy as np
import pytest

from scenarios.clients.poisons import Backdoor, FreeRide, LabelFlip, Trigger, scaled, sign_flipped

X = np.random.default_rng(0).random((40, 3, 4)).astype(np.float32)
Y = np.arange(40) % 3
RNG = np.random.default_rng(0)


def test_labels_are_turned_round() -> None:
    for classes, labels, turned in ((3, [0, 1, 2, 0], [2, 1, 0, 2]), (2, [0, 1], [1, 0]), (2, [], [])):
        x, y = LabelFlip(classes).rows(X, np.array(labels, np.int64), RNG)
        assert (x is X, y.tolist()) == (True, turned)
    with pytest.raises(ValueError, match="y holds 0 to 3; allowed: 0 to 2"):
        LabelFlip(3).rows(X, np.array([0, 3]), RNG)


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
    x, y = Backdoor(trigger, 0.25).rows(X, Y, np.random.default_rng(1))
    poisoned = x[:, 0, 0] == 9
    assert poisoned.sum() == 10
    assert (y[poisoned] == 1).all()
    np.testing.assert_array_equal(y[~poisoned], Y[~poisoned])
    np.testing.assert_array_equal(x[~poisoned], X[~poisoned])
    assert (X[:, 0, 0] < 1).all()
    again = Backdoor(trigger, 0.25).rows(X, Y, np.random.default_rng(1))
    np.testing.assert_array_equal(again[0], x)
    assert Backdoor(trigger, 1.0).rows(X, Y, np.random.default_rng(1))[1].tolist() == [1] * 40


def test_updates_are_scaled_or_turned_and_a_free_rider_sends_what_it_received():
    start, weights = np.array([1, 2], np.float32), np.array([2, 0], np.float32)
    assert scaled(weights, start, 5.0).tolist() == [6, -8]
    assert sign_flipped(weights, start, 2.0).tolist() == [-1, 6]
    assert scaled(weights, start, 1.0).dtype == np.float32
    start = np.zeros(20_000, np.float32)
    np.testing.assert_array_equal(FreeRide(0.0).weights(weights, start + 3, RNG), start + 3)
    assert FreeRide(0.1).weights(weights, start, np.random.default_rng(0)).std() == pytest.approx(
        0.1, rel=0.03
    )
    with pytest.raises(ValueError, match=r"noise_std = -1\.0"):
        FreeRide(-1.0).weights(weights, start, RNG)
