"""A masked machine accepts or refuses any messages of members; nothing grows without a bound."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulation.mutations import LAYOUTS, feed

UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@settings(max_examples=60, suppress_health_check=UNHURRIED)
@given(st.sampled_from(LAYOUTS), st.randoms(use_true_random=False))
def test_any_messages_are_taken_in_or_refused(layout, rng):
    feed(layout, 60, rng)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("first", [0, 100])
def test_many_sessions_of_mutated_messages(layout, first):
    for seed in range(first, first + 15):
        feed(layout, 150, random.Random(seed))


@pytest.mark.soak
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("first", range(1000, 21_000, 500))
def test_very_many_sessions_of_mutated_messages(layout, first):
    for seed in range(first, first + 500):
        feed(layout, 200, random.Random(seed))
