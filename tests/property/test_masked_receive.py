"""A masked machine accepts or refuses any messages of members; nothing grows without a bound."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import soak
from tests.simulation.mutations import LAYOUTS, feed

UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@settings(max_examples=60, suppress_health_check=UNHURRIED)
@given(st.sampled_from(LAYOUTS), st.randoms(use_true_random=False))
def test_any_messages_are_taken_in_or_refused(layout, rng):
    feed(layout, 60, rng)


LATER = range(1000, 21_000, 500)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("first", "count", "steps"),
    [
        *((0, 15, 150), (100, 15, 150)),
        *(soak(first, 500, 200) for first in LATER),
    ],
)
def test_many_sessions_of_mutated_messages(layout, first, count, steps):
    for seed in range(first, first + count):
        feed(layout, steps, random.Random(seed))
