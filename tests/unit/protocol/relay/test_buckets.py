"""Token buckets: a burst, the long run, and as many as are remembered."""

from __future__ import annotations

import pytest

from protocol.relay.buckets import Bucket, Buckets, Rate


def test_a_bucket_gives_its_burst_and_then_its_rate():
    bucket = Bucket(Rate(3, 0.5), 10.0)
    assert [bucket.take(1, 10.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.has(1, 11.0)
    assert bucket.has(1, 12.0)
    assert bucket.take(1, 12.0)
    assert not bucket.take(1, 12.0)
    assert not bucket.has(3.5, 1000.0), "never more than the burst"


def test_a_clock_that_goes_back_gives_nothing():
    bucket = Bucket(Rate(1, 1), 10.0)
    assert bucket.take(1, 10.0)
    assert not bucket.take(1, 5.0)
    assert not bucket.take(1, 10.5)
    assert bucket.take(1, 11.0)


def test_what_is_owed_lasts_until_the_rate_has_paid_it():
    bucket = Bucket(Rate(100, 10), 0.0)
    assert bucket.owe(100, 0.0) == 0.0
    assert bucket.owe(50, 0.0) == pytest.approx(5.0)
    assert bucket.owe(0, 4.0) == pytest.approx(1.0)
    assert bucket.owe(0, 6.0) == 0.0


def test_the_bucket_that_was_used_longest_ago_is_forgotten():
    buckets = Buckets(Rate(1, 1e-9), 2)
    assert buckets.of("a", 0.0).take(1, 0.0)
    assert buckets.of("b", 0.0).take(1, 0.0)
    assert not buckets.of("a", 0.0).take(1, 0.0)
    assert buckets.of("c", 0.0).take(1, 0.0)
    assert not buckets.of("a", 0.0).take(1, 0.0)
    assert buckets.of("b", 0.0).take(1, 0.0), "forgotten, so full again"
