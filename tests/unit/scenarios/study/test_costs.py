"""Epsilon and bytes round by round."""

import json
from collections.abc import Callable, Sequence

import pytest

from mechanisms.accounting.ledger import Event, Gaussian, Ledger, Pure, SampledGaussian, privacy_spent
from scenarios.study.cells import Outcome
from scenarios.study.costs import (
    EPSILON,
    EVENTS,
    ONCE,
    TRAFFIC,
    epsilon_after,
    epsilon_series,
    event_facts,
    sent_until,
)

ROUNDS, DELTA = 4, 1e-5
GAUSSIAN, SAMPLED = Gaussian(2.0), SampledGaussian(1.5, 0.1, 1)


def outcome(events: Callable[[int], Sequence[Event]], **more: object) -> Outcome:
    whole = privacy_spent(Ledger.of(events(ROUNDS)), DELTA).epsilon
    facts = {**event_facts(events, ROUNDS), "epsilon": whole, "delta": DELTA, **more}
    return Outcome((0.1,) * ROUNDS, facts, 1.0)


@pytest.mark.parametrize(
    "events",
    [
        lambda rounds: (GAUSSIAN,) * rounds,
        lambda rounds: (SampledGaussian(1.5, 0.1, rounds),),
        lambda rounds: (GAUSSIAN, SAMPLED) * rounds,
    ],
)
def test_epsilon_after_some_rounds_is_the_accountant_s(events: Callable[[int], Sequence[Event]]) -> None:
    one = outcome(events)
    assert one.facts[ONCE] is False
    assert json.loads(json.dumps(one.facts))[EVENTS] == one.facts[EVENTS]
    for rounds in range(1, ROUNDS + 1):
        assert epsilon_after(one, rounds) == privacy_spent(Ledger.of(events(rounds)), DELTA).epsilon
    assert epsilon_after(one, 1) < epsilon_after(one, ROUNDS)


def test_what_is_spent_at_once_or_unevenly_is_known_at_the_end():
    one = outcome(lambda rounds: (Pure(1.25),))
    assert one.facts[ONCE] is True
    assert epsilon_after(one, 1) == epsilon_after(one, ROUNDS) == one.facts["epsilon"]
    one = outcome(lambda rounds: (GAUSSIAN,) * rounds**2)
    assert EVENTS not in one.facts
    assert epsilon_after(one, 2) is None
    assert epsilon_after(one, ROUNDS) == one.facts["epsilon"]


def test_without_privacy_and_in_cells_of_earlier_versions_there_is_no_epsilon_until_a_round() -> None:
    bare = Outcome((0.1, 0.2), {"epsilon": None, "delta": None}, 1.0)
    assert epsilon_after(bare, 1) is epsilon_after(bare, 2) is None
    assert epsilon_after(Outcome((0.1, 0.2), {"epsilon": 3.0, "delta": DELTA}, 1.0), 1) is None
    assert sent_until(bare, 1) is None
    noiseless = Outcome((0.1, 0.2), {"epsilon": 1.0, **event_facts(lambda r: (Gaussian(0.0),) * r, 2)}, 1.0)
    assert epsilon_after(noiseless, 1) is None, "an infinite epsilon is none"


def test_what_was_noted_round_by_round_comes_first_and_a_series_is_finite_in_every_round():
    noted = Outcome((0.1, 0.2), {"epsilon": 9.0}, 1.0, {EPSILON: (1.0, 1.5), TRAFFIC: (10.0, 30.0)})
    assert [epsilon_after(noted, rounds) for rounds in (1, 2)] == [1.0, 1.5]
    assert [sent_until(noted, rounds) for rounds in (1, 2)] == [10.0, 40.0]
    assert epsilon_series([0.5, 1.0]) == {EPSILON: (0.5, 1.0)}
    for values in ([], [None, None], [1.0, None], [1.0, float("inf")]):
        assert epsilon_series(values) == {}
