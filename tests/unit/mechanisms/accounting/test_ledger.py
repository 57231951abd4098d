"""The ledger and its accountant, against dp-accounting, closed forms and brute force."""

import json
import math
from functools import partial

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.rdp.rdp_privacy_accountant import _compute_rdp_poisson_subsampled_gaussian
from scipy import integrate, stats

from mechanisms.accounting import gaussian, privacy_loss, renyi
from mechanisms.accounting.ledger import (
    PLD_DELTA,
    PLD_KINDS,
    PLD_STEPS,
    Gaussian,
    Ledger,
    Pure,
    Relation,
    SampledGaussian,
    Spent,
    Unit,
    delta_spent,
    event_from_text,
    privacy_spent,
    releases_noise_multiplier,
    sampled_noise_multiplier,
    to_text,
)
from tests.unit.mechanisms.settings import refused

DELTA = 1e-5


def sampled(z: float, q: float, steps: int) -> Ledger:
    return Ledger.of([SampledGaussian(z, q, steps)])


def theirs(z: float, q: float, steps: int, interval: float = 1e-3) -> pld.PrivacyLossDistribution:
    one = pld.from_gaussian_mechanism(z, value_discretization_interval=interval, sampling_prob=q)
    return one.self_compose(steps)


def test_equal_events_are_counted_together_and_sampled_steps_add_up():
    ledger = Ledger.of([Pure(1), Gaussian(2.0), SampledGaussian(1.0, 0.1, 3), Gaussian(2.0)])
    assert ledger.adding([SampledGaussian(1.0, 0.1, 4), SampledGaussian(1.0, 0.2, 4)]).counts == (
        (Gaussian(2.0), 2),
        (Pure(1), 1),
        (SampledGaussian(1.0, 0.1, 7), 1),
        (SampledGaussian(1.0, 0.2, 4), 1),
    )
    assert Ledger(((Gaussian(2.0), 5), (Gaussian(2.0), 5))).counts == ((Gaussian(2.0), 10),)
    assert Ledger(((SampledGaussian(1.0, 0.1, 2), 3),)) == sampled(1.0, 0.1, 6)


def test_what_is_no_event_is_refused():
    with pytest.raises(TypeError, match=r"event = 1\.0 is not allowed: Gaussian, SampledGaussian or Pure"):
        Ledger.of([1.0])
    for event in (Gaussian(1.0), SampledGaussian(1.0, 0.5, 1)):
        with pytest.raises(ValueError, match="times = 0 is not allowed"):
            Ledger(((event, 0),))


def test_bad_arguments_are_named():
    refused(Gaussian, noise_multiplier=-1.0)
    refused(
        partial(SampledGaussian, 1.0, sampling_probability=0.5, steps=1), sampling_probability=0.0, steps=0
    )
    refused(partial(SampledGaussian, sampling_probability=0.5, steps=1), noise_multiplier=math.nan)
    refused(Pure, epsilon=math.inf)
    refused(lambda delta: privacy_spent(Ledger(), delta), delta=0.0)
    refused(lambda epsilon: delta_spent(Ledger(), epsilon), epsilon=-1.0)
    refused(lambda releases: releases_noise_multiplier(1.0, 0.5, releases), releases=0)
    good = {"epsilon": 1.0, "delta": 0.5, "sampling_probability": 0.5, "steps": 1}
    for name, value in {"epsilon": 0.0, "delta": 1.0, "sampling_probability": 1.5, "steps": 0}.items():
        refused(lambda **bad: sampled_noise_multiplier(**{**good, **bad}), **{name: value})


def test_gaussians_alone_are_exact_and_composed():
    ledger = Ledger.of([Gaussian(3.0), Gaussian(4.0), Gaussian(4.0)])
    z = (1 / 9 + 2 / 16) ** -0.5
    found = privacy_spent(ledger, DELTA)
    assert (found.delta, found.method) == (DELTA, "closed form")
    assert found.epsilon == pytest.approx(gaussian.epsilon(DELTA, z), rel=1e-12)
    assert delta_spent(ledger, 1.5) == pytest.approx(gaussian.delta(1.5, z), rel=1e-12)
    everything = privacy_spent(Ledger(((Gaussian(5.0), 4),)), DELTA)
    assert privacy_spent(sampled(5.0, 1.0, 4), DELTA) == everything, "sampling everything is not sampling"


def test_nothing_spent():
    assert privacy_spent(Ledger(), DELTA) == Spent(0.0, DELTA, "nothing spent")
    assert privacy_spent(Ledger.of([Pure(0.0)]), DELTA) == Spent(0.0, DELTA, "closed form")
    assert delta_spent(Ledger(), 0.0) == delta_spent(Ledger.of([Pure(0)]), 0.0) == 0.0
    assert not Ledger()
    unit = Unit("one record", Relation.ADD_REMOVE, "L2")
    assert unit.words == "one record; neighbours: add or remove one; sensitivity in the L2 norm"


@pytest.mark.parametrize("event", [Gaussian(0), SampledGaussian(0, 0.1, 1), SampledGaussian(1e-4, 0.1, 1)])
def test_without_noise_there_is_no_epsilon(event):
    ledger = Ledger.of([event, Gaussian(1.0), Pure(1.0)])
    assert privacy_spent(ledger, DELTA).epsilon == math.inf
    assert delta_spent(ledger, 100.0) == 1.0


@pytest.mark.parametrize(
    ("z", "q", "steps"),
    [
        (1.0, 0.01, 1000),
        (0.5, 0.1, 100),
        (0.3, 0.5, 10),
        (20.0, 0.5, 10_000),
        (1.0, 0.999, 10),
        (0.7, 0.2, 1),
    ],
)
def test_sampled_gaussians_cost_what_dp_accounting_has(z, q, steps):
    known = theirs(z, q, steps)
    for delta in (1e-3, 1e-5, 1e-8):
        found = privacy_spent(sampled(z, q, steps), delta)
        assert found.method == "PLD"
        assert found.epsilon == pytest.approx(known.get_epsilon_for_delta(delta), rel=2e-3)
        assert delta_spent(sampled(z, q, steps), found.epsilon) == pytest.approx(delta, rel=2e-2)


def test_rows_drawn_rarely_need_a_finer_grid_than_dp_accounting_takes_by_itself():
    found = privacy_spent(sampled(2.0, 1e-4, 10_000), DELTA).epsilon
    assert found == pytest.approx(theirs(2.0, 1e-4, 10_000, 5e-6).get_epsilon_for_delta(DELTA), rel=2e-3)
    assert found < 0.8 * theirs(2.0, 1e-4, 10_000, 2e-4).get_epsilon_for_delta(DELTA)


@pytest.mark.parametrize(("z", "q"), [(1.0, 0.3), (0.4, 0.01), (3.0, 0.9)])
def test_one_step_is_never_below_the_integrals_and_hardly_above(z, q):
    """Both directions by numeric integration over the outcome, at each epsilon."""
    for epsilon in (0.01, 0.2, 1.0):
        at = np.linspace(-12 * z, 1 + 12 * z, 400_001)
        without = stats.norm.pdf(at, 0, z)
        having = (1 - q) * without + q * stats.norm.pdf(at, 1, z)
        exact = max(
            integrate.trapezoid(np.maximum(0, p - math.exp(epsilon) * r), at)
            for p, r in ((having, without), (without, having))
        )
        found = delta_spent(sampled(z, q, 1), epsilon)
        assert exact * (1 - 1e-6) <= found <= exact * 1.01 + 1e-9


def test_the_direction_of_adding_costs_more_in_places_and_is_not_forgotten():
    loss = privacy_loss.compose([privacy_loss.Sampled(1.0, 0.5, 1)], [], 1e-15)
    removing, adding = (part.delta(0.1) for part in (loss.removing, loss.adding))
    known = pld.from_gaussian_mechanism(1.0, value_discretization_interval=1e-3, sampling_prob=0.5)
    assert removing == pytest.approx(known._pmf_remove.get_delta_for_epsilon(0.1), rel=1e-3)
    assert adding == pytest.approx(known._pmf_add.get_delta_for_epsilon(0.1), rel=1e-3)
    assert loss.delta(0.1) == max(removing, adding)
    assert loss.epsilon(0.05) == max(part.epsilon(0.05) for part in (loss.removing, loss.adding))


def test_what_is_cut_off_is_an_infinite_loss_and_no_mass_is_lost():
    one, tail = privacy_loss.Sampled(1.0, 0.3, 1), 0.02
    for loss in privacy_loss._sampled_losses(one, 0.01, tail):
        assert loss.delta(-600.0) == pytest.approx(1.0, abs=1e-12)
        assert 0.1 * tail < loss.delta(100.0) <= tail


def test_all_kinds_together_cost_what_dp_accounting_has():
    one_each = [SampledGaussian(1.0, 0.1, 50), Gaussian(3.0), Pure(0.4)]
    ledger = Ledger.of([*one_each, Gaussian(3.0), Pure(0.4)])
    pure = pld.from_privacy_parameters(DifferentialPrivacyParameters(0.4), value_discretization_interval=1e-3)
    known = theirs(1.0, 0.1, 50).compose(theirs(3.0, 1.0, 2)).compose(pure.self_compose(2))
    found = privacy_spent(ledger, DELTA)
    assert found.method == "PLD"
    assert found.epsilon == pytest.approx(known.get_epsilon_for_delta(DELTA), rel=2e-3)
    assert delta_spent(ledger, 3.0) == pytest.approx(known.get_delta_for_epsilon(3.0), rel=2e-2)
    assert found.epsilon > privacy_spent(Ledger.of(one_each), DELTA).epsilon


@pytest.mark.parametrize(("epsilon", "times"), [(0.5, 10), (0.1, 200), (2.0, 3)])
def test_pure_releases_cost_what_all_their_outcomes_add_up_to(epsilon, times):
    """Kairouz, Oh & Viswanath 2015, Theorem 3.3, by brute force over how many answers are true."""
    true = np.arange(times + 1)
    chances = stats.binom.pmf(true, times, 1 / (1 + math.exp(-epsilon)))
    losses = epsilon * (2 * true - times)
    ledger = Ledger(((Pure(epsilon), times),))
    for total in (0.0, epsilon * times / 3, epsilon * times * 0.7):
        exact = float(np.maximum(0, -np.expm1(total - losses)) @ chances)
        assert exact * (1 - 1e-9) <= delta_spent(ledger, total) <= exact * 1.02 + 1e-10
    assert privacy_spent(ledger, DELTA).epsilon <= epsilon * times


def test_pure_releases_never_cost_more_than_their_sum():
    assert privacy_spent(Ledger.of([Pure(0.7)]), 1e-9) == Spent(0.7, 1e-9, "closed form")
    both = Spent(math.fsum([0.7, 0.1]), 1e-12, "closed form")
    assert privacy_spent(Ledger.of([Pure(0.7), Pure(0.1)]), 1e-12) == both
    many = privacy_spent(Ledger(((Pure(0.1), 200),)), DELTA)
    assert many.method == "PLD"
    assert many.epsilon < 0.5 * 20


def test_a_delta_too_small_for_the_grid_is_bounded_by_renyi():
    ledger = sampled(2.0, 0.01, 10)
    assert delta_spent(ledger, 3.0) == renyi.delta(10 * renyi.sampled_gaussian(2.0, 0.01), 3.0) < PLD_DELTA
    assert delta_spent(sampled(1.0, 1e-4, 100), 0.9) <= PLD_DELTA


@pytest.mark.parametrize(("z", "q"), [(1.0, 0.01), (0.5, 0.3), (5.0, 0.9)])
def test_divergences_of_sampled_gaussians(z, q):
    known = _compute_rdp_poisson_subsampled_gaussian(q, z, np.array(renyi.ORDERS))
    assert renyi.sampled_gaussian(z, q) == pytest.approx(known, rel=1e-9)


def test_divergences_of_gaussians_and_responses():
    true, lie, order = math.exp(0.8) / (1 + math.exp(0.8)), 1 / (1 + math.exp(0.8)), 7
    direct = math.log(true**order * lie ** (1 - order) + lie**order * true ** (1 - order)) / (order - 1)
    at = renyi.ORDERS.index(order)
    assert renyi.response(0.8)[at] == pytest.approx(direct)
    assert (renyi.response(0.8) <= 0.8).all()
    assert renyi.gaussian(2.0)[at] == pytest.approx(7 / 8)
    assert not renyi.gaussian(math.inf).any()
    epsilon = renyi.epsilon(renyi.gaussian(1.5), DELTA)
    assert renyi.delta(renyi.gaussian(1.5), epsilon) == pytest.approx(DELTA, rel=1e-9), "its own inverse"
    assert gaussian.epsilon(DELTA, 1.5) < epsilon < 1.15 * gaussian.epsilon(DELTA, 1.5)
    assert renyi.epsilon(renyi.gaussian(1e9), 0.5) == 0.0
    assert renyi.delta(renyi.gaussian(0.1), 0.0) == 1.0


def test_more_steps_than_a_grid_is_for_are_accounted_by_renyi():
    ledger = sampled(50.0, 0.01, PLD_STEPS + 1)
    found = privacy_spent(ledger, DELTA)
    assert found.method == "RDP"
    assert found.epsilon == renyi.epsilon((PLD_STEPS + 1) * renyi.sampled_gaussian(50.0, 0.01), DELTA)
    assert delta_spent(ledger, found.epsilon) == pytest.approx(DELTA)
    fewer = privacy_spent(sampled(50.0, 0.01, PLD_STEPS), DELTA)
    assert fewer.method == "PLD"
    assert 0.85 * found.epsilon < fewer.epsilon < found.epsilon


def test_many_different_events_are_accounted_by_renyi():
    events = [SampledGaussian(2.0 + i / 10, 0.05, 3) for i in range(PLD_KINDS)]
    assert privacy_spent(Ledger.of(events), DELTA).method == "PLD"
    more = Ledger.of([*events, Pure(0.2), Pure(0.2), Gaussian(9.0)])
    expected = sum(3 * renyi.sampled_gaussian(2.0 + i / 10, 0.05) for i in range(PLD_KINDS))
    expected = expected + 2 * renyi.response(0.2) + renyi.gaussian(9.0)
    found = privacy_spent(more, DELTA)
    assert found.method == "RDP"
    assert found.epsilon == pytest.approx(renyi.epsilon(expected, DELTA), rel=1e-12)
    assert privacy_spent(sampled(1.0, 0.1, 10), PLD_DELTA / 2).method == "RDP"


BUDGETS = [(1, 1e-5, 0.01, 1000), (8, 1e-5, 0.01, 10_000), (0.1, 1e-6, 1e-3, 10_000), (100, 1e-5, 0.01, 10)]
BUDGETS += [(1.0, 1e-5, 1e-5, 1000), (1.0, 1e-5, 0.01, 1), (0.01, 1e-5, 0.5, 10_000), (3.0, 1e-5, 0.999, 100)]
BUDGETS += [(2.0, 1e-12, 0.1, 100), (5.0, 1e-6, 0.1, 3 * PLD_STEPS)]
EXTREME = [(1000, 1e-5, 0.14, 14), (10_000, 1e-5, 0.035, 570), (1e-6, 0.999, 0.1, 10), (0.1, 1e-30, 0.1, 10)]


@pytest.mark.parametrize(("epsilon", "delta", "q", "steps"), BUDGETS + EXTREME)
def test_the_noise_of_sampled_releases_is_enough_and_one_percent_less_is_not(epsilon, delta, q, steps):
    z = sampled_noise_multiplier(epsilon, delta, q, steps)
    assert privacy_spent(sampled(z, q, steps), delta).epsilon <= epsilon
    if (epsilon, delta, q, steps) in BUDGETS:
        assert privacy_spent(sampled(z / 1.01, q, steps), delta).epsilon > epsilon


def test_the_noise_of_several_releases_of_almost_none_and_of_more_than_there_is():
    z = releases_noise_multiplier(8.0, DELTA, 100)
    assert privacy_spent(Ledger(((Gaussian(z), 100),)), DELTA).epsilon == pytest.approx(8.0, rel=1e-9)
    assert sampled_noise_multiplier(8.0, DELTA, 1.0, 100) == z
    assert sampled_noise_multiplier(1.0, 1e-3, 1e-9, 1) == 0.01, "the least that is searched for"
    with pytest.raises(ValueError, match="epsilon = 1e-06 with delta = 1e-30 is not allowed: too small"):
        sampled_noise_multiplier(1e-6, 1e-30, 0.1, 10)


def test_half_the_steps_fit_too():
    z = sampled_noise_multiplier(2.0, DELTA, 0.02, 500)
    totals = [privacy_spent(sampled(z, 0.02, steps), DELTA).epsilon for steps in (1, 250, 498, 499, 500)]
    assert totals == sorted(totals)
    assert totals[-1] <= 2.0


OTHER_TEXTS = ("", "null", "[]", '"pure"', "{}", '{"event": "laplace", "epsilon": 1}', "[" * 100_000,
               '{"event": ["pure"], "epsilon": 1}', '{"event": "pure"}', '{"event": "pure", "epsilon": -1}',
               '{"event": "pure", "epsilon": NaN}', '{"event": "pure", "epsilon": "1"}',
               '{"event": "pure", "epsilon": 1} x', '{"event": "pure", "epsilon": 1, "a": 2}')  # fmt: skip


@pytest.mark.parametrize("text", OTHER_TEXTS)
def test_any_other_text_is_refused_in_one_short_line(text):
    with pytest.raises(ValueError, match=r"is no event$") as raised:
        event_from_text(text)
    assert len(str(raised.value)) < 250


def test_an_event_is_one_line_of_json():
    text = to_text(SampledGaussian(0.1 + 0.2, 1e-300, 7))
    assert "\n" not in text
    assert isinstance(json.loads(text), dict)
    assert type(event_from_text(to_text(Pure(2)))) is Pure
