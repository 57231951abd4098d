"""For any budget: noise and epsilon are inverse, monotone, and on the safe side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.accounting.gaussian import compose, delta, epsilon, noise_multiplier
from mechanisms.accounting.ledger import (
    Gaussian,
    Ledger,
    Pure,
    SampledGaussian,
    event_from_text,
    privacy_spent,
    to_text,
)

epsilons = st.floats(1e-3, 100)
deltas = st.floats(-30, -0.5).map(lambda power: 10**power)
noises = st.floats(-1.3, 3).map(lambda power: 10**power)


@given(epsilons, deltas)
def test_noise_is_enough_and_no_more_than_needed(eps, of):
    z = noise_multiplier(eps, of)
    assert delta(eps, z) <= of
    assert delta(eps, z * (1 - 1e-9)) > of
    assert epsilon(of, z) == pytest.approx(eps, rel=1e-7)


@given(deltas, noises)
def test_epsilon_is_enough_and_no_more_than_needed(of, z):
    eps = epsilon(of, z)
    assert delta(eps, z) <= of
    assert eps == 0 or delta(eps * (1 - 1e-7), z) > of


@given(epsilons, noises, st.floats(1.001, 10))
def test_delta_falls_with_noise_and_with_epsilon(eps, z, factor):
    assert delta(eps, z * factor) <= delta(eps, z)
    assert delta(eps * factor, z) <= delta(eps, z)
    assert 0 <= delta(eps, z) <= 1


@given(st.lists(noises, min_size=2, max_size=8), st.data())
def test_composing_in_parts_is_composing_at_once(each, data):
    cut = data.draw(st.integers(1, len(each) - 1))
    parts = [compose(each[:cut]), compose(each[cut:])]
    assert compose(parts) == pytest.approx(compose(each), rel=1e-12)
    assert compose(each) < min(each)


events = st.one_of(
    st.builds(Gaussian, noises),
    st.builds(Pure, st.floats(0, 10)),
    st.builds(SampledGaussian, noises, st.floats(1e-6, 1), st.integers(1, 10**6)),
)


@given(st.lists(events, max_size=6), st.randoms(use_true_random=False))
def test_a_ledger_knows_no_order_and_events_survive_being_text(some, rng):
    shuffled = [event_from_text(to_text(event)) for event in some]
    rng.shuffle(shuffled)
    assert Ledger.of(shuffled) == Ledger.of(some) == Ledger.of(some[:2]).adding(some[2:])
    assert hash(Ledger.of(shuffled)) == hash(Ledger.of(some))
    assert bool(Ledger.of(some)) is bool(some)


@given(st.lists(noises, min_size=1, max_size=4), deltas)
def test_every_release_costs(each, of):
    fewer, more = Ledger.of(map(Gaussian, each[1:])), Ledger.of(map(Gaussian, each))
    assert privacy_spent(fewer, of).epsilon <= privacy_spent(more, of).epsilon
