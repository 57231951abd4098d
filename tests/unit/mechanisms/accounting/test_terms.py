"""What counts for one unit, and at which noise: each charge at the terms that it was sized for."""

import json
import math

import pytest

from mechanisms.accounting import gaussian, privacy_loss
from mechanisms.accounting.ledger import (
    NO_BOUND,
    Gaussian,
    Ledger,
    Pure,
    Relation,
    SampledGaussian,
    Terms,
    Unit,
    event_from_text,
    privacy_spent,
    terms_from_text,
    terms_to_text,
    to_text,
)
from mechanisms.accounting.terms import (
    at_honest,
    has_no_bound,
    has_unknown,
    ledger_of_unit,
    mechanisms_of,
    units,
    unknown_terms,
    with_terms,
)

Q, STEPS, DELTA = 4096 / 60000, 200, 1e-5
ROW = Unit("one record", Relation.ADD_REMOVE, "L2")
DATA_SET = Unit("one data set", Relation.REPLACE, "L2")


def shared(honest: int, unit: Unit = ROW) -> Terms:
    return Terms("distributed-dp-sgd", unit, honest)


@pytest.mark.parametrize(
    ("z", "sized_for", "by_honest"),
    [
        (3.783, 6, {9: 0.81, 6: 1.00, 4: 1.22, 2: 1.67, 0: 3.6}),
        (1.605, 6, {9: 2.3, 6: 3.0, 4: 3.9, 2: 6.0, 0: 20}),
        (1.605, 2, {9: 1.4, 6: 1.7, 4: 2.1, 2: 3.0, 0: 7.7}),
    ],
)
def test_epsilon_follows_the_noise_that_the_honest_add(z, sized_for, by_honest):
    ledger = Ledger.of([SampledGaussian(z, Q, STEPS, shared(sized_for))])
    for honest, epsilon in by_honest.items():
        found = privacy_spent(at_honest(ledger, honest), DELTA).epsilon
        assert found == pytest.approx(epsilon, rel=0.04)
    assert at_honest(ledger, sized_for) == Ledger.of([SampledGaussian(z, Q, STEPS)])


@pytest.mark.parametrize(("honest", "as_if_for_one", "true"), [(1, 2.85, 8.63), (0, 4.47, 15.13)])
def test_what_was_sized_for_nine_is_not_rescaled_by_a_task_for_one(honest, as_if_for_one, true):
    """40 steps for 9 honest others, then a task for 1 under the same key; composed by hand, too."""
    z, q, steps = 2.8675, 0.285, 40
    ledger = Ledger.of([SampledGaussian(z, q, 1, shared(9))] * steps)
    found = privacy_spent(at_honest(ledger, honest), DELTA).epsilon
    assert found == pytest.approx(true, abs=0.006)
    remaining = privacy_loss.Sampled(z * math.sqrt((honest + 1) / 10), q, steps)
    by_hand = privacy_loss.compose([remaining], [], 1e-4 * DELTA).epsilon(DELTA)
    assert found == pytest.approx(by_hand, rel=1e-9)
    rescaled = at_honest(Ledger.of([SampledGaussian(z, q, steps, shared(1))]), honest)
    assert privacy_spent(rescaled, DELTA).epsilon == pytest.approx(as_if_for_one, abs=0.006)


def test_releases_of_two_tasks_compose_as_one_gaussian_each_at_its_own_noise():
    """Without sampling there is a closed form: 1 / z^2 adds up, each z with the noise that remains of it."""
    runs = [(20.0, 9, 40), (8.0, 1, 10), (30.0, None, 5)]
    ledger = Ledger(
        tuple((Gaussian(z, Terms("a", ROW, honest)), times) for z, honest, times in runs[:2])
    ).adding([SampledGaussian(30.0, 1.0, 5, Terms("dp-sgd", ROW))])
    for honest in (9, 1, 0):
        inverse = sum(
            times / (z * z * (1.0 if of is None else (honest + 1) / (of + 1))) for z, of, times in runs
        )
        exact = gaussian.epsilon(DELTA, 1 / math.sqrt(inverse))
        assert privacy_spent(at_honest(ledger, honest), DELTA).epsilon == pytest.approx(exact, rel=1e-9)


def test_what_is_not_gaussian_or_the_owners_own_is_nobody_else_s_noise():
    ledger = Ledger.of([Gaussian(2.0), Pure(0.5), SampledGaussian(2.0, 0.5, 4)])
    assert at_honest(ledger, 0) == at_honest(with_terms(ledger, Terms("dp-sgd", ROW)), 0) == ledger
    of_three = with_terms(ledger, shared(3))
    assert at_honest(of_three, 0) == Ledger.of([Gaussian(1.0), Pure(0.5), SampledGaussian(1.0, 0.5, 4)])
    assert with_terms(of_three, shared(9)) == of_three, "terms stay as they are"


def test_a_unit_has_its_own_charges_and_those_of_any_unit():
    of_row, of_set = Gaussian(2.0, shared(3)), Gaussian(3.0, Terms("ldp", DATA_SET))
    of_any = Gaussian(4.0, unknown_terms(shared(3)))
    ledger = Ledger.of([of_row, of_set, of_any])
    assert ledger_of_unit(ledger, ROW) == Ledger.of([of_row, of_any])
    assert ledger_of_unit(ledger, DATA_SET) == Ledger.of([of_set, of_any])
    assert ledger_of_unit(Ledger.of([Gaussian(5.0)]), ROW) == Ledger.of([Gaussian(5.0)])
    assert units(ledger) == (DATA_SET, ROW)
    assert mechanisms_of(ledger) == ("distributed-dp-sgd", "ldp", "unknown")
    assert (has_unknown(ledger), has_unknown(Ledger.of([of_row, of_set]))) == (True, False)


def test_what_nobody_knows_counts_as_shared_by_one_or_by_as_many_as_the_run_s_noise():
    own, one, nine = (unknown_terms(Terms("a", ROW, honest)) for honest in (None, 1, 9))
    assert own == one == Terms("unknown", None, 1)
    assert nine.honest == 9


def test_an_offer_without_noise_leaves_no_bound_for_any_unit():
    mark = Gaussian(0.0, Terms("none", None))
    for event, is_bound in ((NO_BOUND, False), (mark, False), (Gaussian(0.0, shared(1)), True)):
        assert has_no_bound(Ledger.of([Gaussian(2.0), Pure(0.0), event])) != is_bound
    assert privacy_spent(at_honest(ledger_of_unit(Ledger.of([mark]), DATA_SET), 9), DELTA).epsilon == math.inf


def test_numbers_of_members_are_whole_and_not_negative():
    with pytest.raises(ValueError, match="is not allowed"):
        at_honest(Ledger(), -1)


@pytest.mark.parametrize("terms", [shared(3), Terms("none", None), Terms("a.b:C", DATA_SET)])
def test_terms_are_read_as_they_were_written_and_stand_beside_the_event(terms):
    assert terms_from_text(terms_to_text(terms)) == terms
    assert event_from_text(to_text(Gaussian(2.0, terms))) == Gaussian(2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": None},
        {"mechanism": "a", "unit": "row", "honest": None},
        {"mechanism": "a", "unit": {"what": "x", "relation": "swap", "norm": "L2"}, "honest": None},
        {"mechanism": "a", "unit": None, "honest": 0},
        [],
    ],
)
def test_what_are_no_terms_is_refused(wrong):
    with pytest.raises(ValueError, match="is no terms"):
        terms_from_text(json.dumps(wrong))
    with pytest.raises(ValueError, match="is no event"):
        event_from_text('{"event": "gaussian", "noise_multiplier": 1.0, "terms": {}}')
