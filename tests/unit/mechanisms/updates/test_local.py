"""Local DP: clip, noise, cost; the replay of the faulty calibration; record-level DP; names."""

import math

import numpy as np
import pytest

from mechanisms.accounting.ledger import Gaussian, Ledger, Relation, SampledGaussian, privacy_spent
from mechanisms.mechanism import Mechanism
from mechanisms.registry import MECHANISMS
from mechanisms.updates.linear_classic import LinearClassic
from mechanisms.updates.local import QUANTILE_SHARE, LocalDP, aldp, ldp, quantile_split
from mechanisms.updates.record import RecordDP, dp_sgd
from tests.unit.mechanisms.settings import setting, vector, words

D = 40_000


def cost(mechanism: Mechanism, rounds: int) -> float:
    """Epsilon of so many offers, training included."""
    ledger = Ledger(())
    for _ in range(rounds):
        ledger = ledger.adding((*mechanism.per_training, *mechanism.per_offer))
    return privacy_spent(ledger, mechanism.guarantee.delta).epsilon


def released(mechanism, fresh, memory=()):
    return mechanism.offer(fresh, memory, words())


@pytest.mark.parametrize("make", [ldp, aldp])
@pytest.mark.parametrize("values", [{}, {"window_source": "aggregate"}, {"window_source": "quantile"}])
@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 1), (8.0, 20), (20.0, 100)])
def test_all_rounds_together_cost_the_budget(make, values, epsilon, rounds):
    mechanism = make(setting(epsilon=epsilon, rounds=rounds, **values))
    assert cost(mechanism, rounds) == pytest.approx(epsilon, rel=1e-6)
    assert cost(mechanism, rounds) <= epsilon * (1 + 1e-9)
    assert cost(mechanism, rounds + 1) > epsilon
    assert (mechanism.guarantee.epsilon, mechanism.guarantee.stated) == (epsilon, epsilon)


def test_the_noise_is_twice_the_radius_times_the_multiplier():
    """Replacing a data set moves a clipped update by up to 2 r: L2, over all tensors together."""
    mechanism = ldp(setting(clipping_radius=0.5))
    offer = released(mechanism, np.zeros(D, np.float32))
    assert offer.noise_std == pytest.approx(2 * 0.5 * mechanism.noise_multiplier)
    assert offer.vector.std() == pytest.approx(offer.noise_std, rel=0.02)
    assert (offer.radius, offer.memory) == (0.5, ())
    halves = offer.vector[: D // 2], offer.vector[D // 2 :]
    assert abs(np.corrcoef(*halves)[0, 1]) < 0.03, "one noise for all tensors, and no coordinate twice"
    assert mechanism.bound == pytest.approx(0.5 + 8 * offer.noise_std)
    assert np.abs(offer.vector).max() < mechanism.bound
    assert mechanism.guarantee.outside == ""


def test_the_update_is_clipped_as_a_whole():
    mechanism = LocalDP("ldp", ldp(setting()).rule, 1.0, 1e-4, ldp(setting()).guarantee)
    fresh = np.full(D, 3.0, np.float32)
    offer = released(mechanism, fresh)
    assert np.linalg.norm(offer.vector) == pytest.approx(1.0, rel=0.02)
    assert np.array_equal(fresh, np.full(D, 3.0, np.float32)), "the argument is not changed"


def test_an_adaptive_radius_uses_the_updates_before_and_stores_the_norm_before_noise():
    mechanism = aldp(setting())
    first = released(mechanism, vector(*[0.3] * 4))
    assert first.radius == 1.0, "the window is empty"
    assert first.memory == (pytest.approx((0.6,)),), "the norm of the update, not of what left"
    second = released(mechanism, vector(*[0.1] * 4), first.memory)
    assert second.radius == pytest.approx(0.6)
    assert second.noise_std == pytest.approx(2 * 0.6 * mechanism.noise_multiplier)
    assert second.memory == (pytest.approx((0.6, 0.2)),)
    assert "clipping radius" in mechanism.guarantee.outside


def test_an_aggregate_source_takes_off_its_own_round_s_noise():
    mechanism = aldp(setting(window_source="aggregate", clipping_radius=2.0))
    noise_std = 2 * 2.0 * mechanism.noise_multiplier
    mean = np.full(100, 2 * noise_std, np.float32)
    wanted = math.sqrt(100 * 4 * noise_std**2 - 100 * noise_std**2 / 5)
    assert mechanism.aggregated(mean, 5, ()) == (pytest.approx((wanted,), rel=1e-5),)
    assert mechanism.guarantee.outside == ""


def test_a_quantile_pays_for_its_bits():
    mechanism = aldp(setting(window_source="quantile"))
    exact = ldp(setting()).noise_multiplier
    of_bits, of_update = quantile_split(exact)
    assert mechanism.per_offer == (Gaussian(of_update), Gaussian(of_bits))
    assert of_bits**-2 + of_update**-2 == pytest.approx(exact**-2)
    assert of_bits**-2 == pytest.approx(QUANTILE_SHARE * exact**-2)
    assert mechanism.rule.bit_noise_std == of_bits, "a bit moves by 1: its multiplier is its std"
    assert mechanism.guarantee.outside == ""


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_released_as_zeros_would_be(bad):
    """Planted before: an error, which ends a node, and tells which of two data sets it has."""
    for mechanism in (ldp(setting()), aldp(setting()), replay()):
        found, zeros = (released(mechanism, vector(*[one] * 10)) for one in (bad, 0.0))
        assert np.isfinite(found.vector).all()
        assert (found.vector.tolist(), found.memory) == (zeros.vector.tolist(), zeros.memory)


def test_vectors_of_another_size_are_refused():
    with pytest.raises(ValueError, match="d at least 1"):
        released(ldp(setting()), vector())
    with pytest.raises(ValueError, match=r"shape \(9,\), which is not allowed: \(10,\)"):
        released(replay(), np.zeros(9, np.float32))


def test_units_are_named():
    whole, one = ldp(setting()), dp_sgd(setting(rounds=2))
    unit = whole.guarantee.unit
    assert (unit.what, unit.norm) == ("one node's whole data set, over the run", "L2")
    assert [each.guarantee.unit.relation for each in (whole, one)] == [Relation.REPLACE, Relation.ADD_REMOVE]
    assert one.guarantee.unit.what.startswith("one record")
    assert "data set" in whole.protects
    assert "record" in one.protects
    for name in ("none", "ldp", "aldp", "dp-sgd"):
        assert MECHANISMS[name](setting(rounds=2)).name == name


def replay(name: str = "aldp", **values) -> LinearClassic:
    mechanism = MECHANISMS[name](setting(calibration="linear-classic", **values))
    assert isinstance(mechanism, LinearClassic)
    return mechanism


def test_a_replay_has_the_classic_noise_of_each_tensor():
    """disco: std 2 r sqrt(2 ln(1.25 / (delta/T))) / (eps/T)."""
    mechanism = replay(epsilon=5.0, rounds=10)
    assert mechanism.noise_multiplier == pytest.approx(math.sqrt(2 * math.log(1.25 / 1e-6)) / 0.5)
    assert len(mechanism.per_offer) == 2
    assert cost(mechanism, 10) == pytest.approx(mechanism.guarantee.epsilon)


def test_a_replay_s_proved_epsilon_stands_beside_the_stated():
    """disco.md: 8 tensors at a claimed epsilon of 10 in one round are truly 41; T = 100, 20: truly 1.34."""
    eight = replay(epsilon=10.0, rounds=1, sizes=(5,) * 8)
    assert eight.guarantee.stated == 10.0
    assert eight.guarantee.epsilon == pytest.approx(41, abs=0.5)
    assert "stated epsilon 10, proved epsilon 4" in eight.protects
    one = replay(epsilon=20.0, rounds=100, sizes=(5,))
    assert one.guarantee.epsilon == pytest.approx(1.34, abs=0.005)


def test_a_replay_clips_and_noises_each_tensor_by_its_own_window():
    mechanism = replay(sizes=(1, D), epsilon=1e6, rounds=1)
    fresh = np.concatenate([vector(0.5), np.full(D, 5.0, np.float32)])
    offer = released(mechanism, fresh)
    assert offer.memory == (pytest.approx((0.5,)), pytest.approx((5 * math.sqrt(D),)))
    assert offer.vector[0] == pytest.approx(0.5, abs=0.01), "its own norm is in the window"
    assert np.linalg.norm(offer.vector[1:]) == pytest.approx(1.0, rel=0.01)
    assert offer.radius == 1.0
    later = released(mechanism, np.concatenate([vector(0.1), fresh[1:]]), ((0.2, 0.3, 0.4), (1.0,)))
    assert later.memory[0] == pytest.approx((0.3, 0.4, 0.1))
    assert "clipping radii" in mechanism.guarantee.outside


def test_a_replay_s_small_radius_has_small_noise_and_a_fixed_one_leaves_nothing_outside():
    mechanism = replay(sizes=(D, 1))
    offer = released(mechanism, np.full(D + 1, 0.5 / math.sqrt(D), np.float32))
    assert offer.vector[:-1].std() == pytest.approx(2 * 0.5 * mechanism.noise_multiplier, rel=0.02)
    assert mechanism.bound == pytest.approx(1 + 16 * mechanism.noise_multiplier)
    least = released(replay(), np.zeros(10, np.float32))
    assert least.radius == 1e-12, "of a zero tensor"
    assert np.isfinite(least.vector).all()
    fixed = released(replay("ldp"), np.zeros(10, np.float32))
    assert (replay("ldp").guarantee.outside, fixed.radius, fixed.memory) == ("", 1.0, ((), ()))


def test_private_training_is_charged_and_offers_add_nothing():
    mechanism = dp_sgd(setting(rounds=3, epochs=1, rows=160, batch_size=16))
    assert isinstance(mechanism, RecordDP)
    rule = mechanism.gradient
    assert (rule.clipping_radius, rule.sampling_probability) == (1.0, 0.1)
    assert mechanism.per_training == (SampledGaussian(rule.noise_multiplier, 0.1, 10),)
    assert (mechanism.per_offer, mechanism.bound, mechanism.guarantee.outside) == ((), 0.0, "")
    fresh = vector(9.0, 9.0)
    assert released(mechanism, fresh).vector is fresh
    assert 0.97 * 8 < cost(mechanism, 3) <= 8.0
    everything = dp_sgd(setting(rounds=2, rows=10, batch_size=16))
    assert everything.gradient.sampling_probability == 1.0, "a batch of all rows samples all"


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("ldp", {"calibration": "none"}, "calibration = 'none' is not allowed: 'exact', 'linear-classic'"),
        ("dp-sgd", {"calibration": "linear-classic"}, "'linear-classic' is not allowed with 'dp-sgd'"),
        (
            "aldp",
            {"window_source": "x"},
            "window_source = 'x' is not allowed: 'raw', 'aggregate', 'quantile'",
        ),
    ],
)
def test_what_does_not_go_together(name, values, error):
    with pytest.raises(ValueError, match=error):
        MECHANISMS[name](setting(**values))
    said = "window_source = 'quantile' is not allowed with calibration 'linear-classic': 'raw'"
    with pytest.raises(ValueError, match=said):
        replay(window_source="quantile")
