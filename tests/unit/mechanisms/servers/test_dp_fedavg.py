"""DP-FedAvg: weights, clips, noise, what the rounds cost."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, Relation, SampledGaussian, privacy_spent
from mechanisms.registry import SERVER_MECHANISMS
from mechanisms.servers.dp_fedavg import DPFedAvg, Flat, Layers, dp_fedavg, dp_fedavg_within
from mechanisms.servers.estimators import ClippedDenominator, FixedDenominator, total_weight, weight_of
from mechanisms.servers.server import Federation, Step
from tests.unit.mechanisms.settings import combined, refused, vector, words

D = 40_000
ROWS = (10, 20, 40, 80)


def arm(sizes: tuple[int, ...] = (D,), **values) -> DPFedAvg:
    """W = 10/40 + 20/40 + 1 + 1 = 2.75; S = 2, q = 0.5, z = 1."""
    usual = {"sampling_probability": 0.5, "noise_multiplier": 1.0, "weight_cap": 40.0, "delta": 1e-5}
    own = {"clip": Flat(2.0), "estimator": FixedDenominator(2.75)}
    return DPFedAvg(Federation(ROWS, 60, sizes), **{**usual, **own, **values})


CLIPS = [Flat(2.0), Layers((3, 1), (1.5, 0.5)), Layers.equal((3, 1), 2.0)]


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_every_client_of_a_block_is_clipped_by_itself_towards_the_start(clip, precision):
    rng = np.random.default_rng(0)
    start = torch.from_numpy(rng.standard_normal(4)).to(precision)
    weights = torch.from_numpy(rng.standard_normal((50, 4)) * rng.uniform(0, 4, (50, 1))).to(precision)
    before = weights.clone()
    clipped = clip.batch(weights, start)
    assert clipped.dtype == precision
    assert torch.equal(weights, before), "the argument is not changed"
    for row, out in zip(weights, clipped, strict=True):
        one = clip.final((row - start).numpy().astype(np.float32))
        assert (out - start).numpy() == pytest.approx(one, rel=1e-5, abs=1e-5)
    within = [bool(torch.equal(row, out)) for row, out in zip(weights, clipped, strict=True)]
    assert 5 < sum(within) < 45, "what was within stays, bit for bit"


def test_a_block_within_is_returned_itself_and_a_norm_of_zero_divides_by_nothing():
    """The book's code does."""
    start = torch.ones(4)
    within = torch.stack([start, start + torch.tensor([1.0, 0, 0, 0])])
    assert Flat(2.0).batch(within, start) is within
    for clip in CLIPS:
        clipped = clip.batch(torch.stack([start, start + 3]), start)
        assert torch.equal(clipped[0], start)
        assert torch.isfinite(clipped).all()


def test_layers_are_clipped_each_to_its_own():
    clip = Layers((2, 1), (1.0, 0.5))
    clipped = clip.batch(torch.tensor([[3.0, 4.0, 0.25]]), torch.zeros(3))
    assert clipped.numpy()[0] == pytest.approx([0.6, 0.8, 0.25])
    assert clip.radius == pytest.approx(math.sqrt(1.25))
    assert clip.final(vector(3, 4, -7)) == pytest.approx([0.6, 0.8, -0.5], rel=1e-6)
    equal = Layers.equal((5, 6, 7, 8), 3.0)
    assert (equal.radii, equal.radius) == (pytest.approx((1.5,) * 4), pytest.approx(3.0))


@pytest.mark.parametrize("clip", CLIPS)
def test_an_upload_is_within_the_radius_in_exact_arithmetic(clip):
    rng = np.random.default_rng(1)
    chosen = arm((4,), clip=clip)
    for _ in range(200):
        start, weights = (rng.standard_normal((2, 4)) * 3).astype(np.float32)
        moved = clip.batch(torch.from_numpy(weights)[None], torch.from_numpy(start))[0].numpy()
        sent = chosen.upload(moved, start, 10, words())
        square = sum(Fraction(float(value)) ** 2 for value in sent)
        assert square <= Fraction(clip.radius) ** 2
        assert sent == pytest.approx(moved - start, rel=1e-5, abs=1e-6), "the batch's clip had done it"


def test_weights_are_capped_at_one_and_noise_goes_by_the_denominator():
    """z S / (q W) = 1.5 * 2 / (0.5 * 2.75), and 2 z S / (q W_min) = 2 * 1.5 * 2 / (0.5 * 2.5)."""
    assert [weight_of(rows, 40.0) for rows in ROWS] == [0.25, 0.5, 1.0, 1.0]
    assert total_weight(ROWS, 40.0) == 2.75
    assert arm(noise_multiplier=1.5).noise_std == pytest.approx(2.181818, rel=1e-6)
    assert arm(noise_multiplier=1.5, estimator=ClippedDenominator(2.5)).noise_std == pytest.approx(4.8)


def test_the_fixed_denominator_divides_by_what_is_expected():
    """(0.25 * 1 + 1 * (-2)) / (0.5 * 2.75) = -1.272727, and the model is 10."""
    chosen = arm((2,), noise_multiplier=0.0)
    new = combined(chosen, vector(10, 0), [vector(1, 0), vector(-2, 0)], [10, 80])
    assert new == pytest.approx([10 - 1.272727, 0], rel=1e-6)
    assert new.dtype == np.float32


def test_the_clipped_denominator_divides_by_the_sample_or_the_least():
    chosen = arm((1,), noise_multiplier=0.0, estimator=ClippedDenominator(2.0))
    assert chosen.noise_std == 0
    least = combined(chosen, vector(0), [vector(1)], [20])
    assert least == pytest.approx([0.5 * 1 / 1.0]), "0.5 in the sample is below q W_min = 1"
    sampled = combined(chosen, vector(0), [vector(1), vector(1.6)], [20, 40])
    assert sampled == pytest.approx([(0.5 + 1.6) / 1.5])


@pytest.mark.parametrize("estimator", [FixedDenominator(2.75), ClippedDenominator(2.5)])
def test_the_model_gets_the_estimate_and_the_noise_also_without_anybody(estimator):
    chosen, quiet = arm(estimator=estimator), arm(estimator=estimator, noise_multiplier=0.0)
    model = np.full(D, 7.0, np.float32)
    for updates in ([np.full(D, 0.009, np.float32)], []):
        wanted, new = (combined(one, model, updates, [40] * len(updates)) for one in (quiet, chosen))
        assert (new - wanted).std() == pytest.approx(chosen.noise_std, rel=0.02)
        assert abs((new - wanted).mean()) < 5 * chosen.noise_std / math.sqrt(D)
        assert model[0] == 7.0, "the argument is not changed"
        assert wanted[0] > 7 or not updates


def test_users_are_sampled_by_poisson():
    rng = np.random.default_rng(5)
    sizes = [len(arm().sample(100, rng)) for _ in range(400)]
    assert np.mean(sizes) == pytest.approx(50, abs=5 * 5 / math.sqrt(400))
    assert np.std(sizes) == pytest.approx(5, rel=0.2), "sqrt(100 q (1 - q)): the number varies"


def test_the_rounds_are_sampled_gaussian_releases():
    chosen = arm()
    assert chosen.events(60) == (SampledGaussian(1.0, 0.5, 60),)
    guarantee = chosen.guarantee
    assert guarantee.epsilon == guarantee.stated == privacy_spent(Ledger.of(chosen.events(60)), 1e-5).epsilon
    assert (guarantee.unit.relation, guarantee.unit.norm) == (Relation.ADD_REMOVE, "L2")
    assert guarantee.unit.what.startswith("one user")
    assert "number of users" in guarantee.outside
    assert "the server itself sees" in chosen.protects
    assert (chosen.name, chosen.proximal, chosen.grad_clip) == ("dp-fedavg", 0.0, None)
    bare = arm(noise_multiplier=0.0)
    assert bare.guarantee is None
    assert "no epsilon" in bare.protects
    assert math.isinf(privacy_spent(Ledger.of(bare.events(1)), 1e-5).epsilon)
    assert bare.figures["noise std"] == 0.0
    expected = {"noise multiplier": 1.0, "clip radius": 2.0, "noise std": pytest.approx(2 / (0.5 * 2.75))}
    assert chosen.figures == expected
    clipped = arm((2,)).after_batch(torch.tensor([[30.0, 40.0]]), torch.zeros(2), Step(np.array([0]), 0.1))
    assert clipped.numpy()[0] == pytest.approx([1.2, 1.6])


def plain(**values) -> DPFedAvg:
    """The same as `arm`, with two tensors."""
    usual = {"sampling_probability": 0.5, "noise_multiplier": 1.0, "weight_cap": 40.0, "delta": 1e-5}
    own = {"clip": 2.0, "per_layer": False, "estimator": "fixed"}
    return dp_fedavg(Federation(ROWS, 60, (3, 1)), **{**usual, **own, **values})


def test_plain_values_make_the_algorithm():
    assert plain() == arm((3, 1)), "W, here 2.75, is worked out from the rows and the cap"
    assert plain(weight_cap=80.0).estimator == FixedDenominator(0.125 + 0.25 + 0.5 + 1)
    assert plain(estimator="clipped") == arm((3, 1), estimator=ClippedDenominator(2.75)), "W is W_min"
    per_layer = plain(per_layer=True)
    assert per_layer.clip == Layers((3, 1), (2 / math.sqrt(2),) * 2)
    assert per_layer.clip.radius == pytest.approx(plain().clip.radius), "one radius for all layers together"
    assert per_layer.noise_std == pytest.approx(plain().noise_std)


OTHERS = {"clip": 0.5, "per_layer": False, "estimator": "fixed", "weight_cap": 1.0, "delta": 1e-5}


def within(epsilon: float, rounds: int, q: float) -> DPFedAvg:
    return dp_fedavg_within(Federation((5,) * 10, rounds, (4, 2)), epsilon, q, **OTHERS)


@pytest.mark.parametrize(("epsilon", "rounds", "q"), [(1.0, 20, 1.0), (30.0, 5, 1.0), (4.0, 10, 0.3)])
def test_it_spends_what_is_stated_and_less_noise_would_spend_more(epsilon, rounds, q):
    mechanism = within(epsilon, rounds, q)
    assert 0.97 * epsilon <= mechanism.guarantee.epsilon <= epsilon * (1 + 1e-9)
    louder = dataclasses.replace(mechanism, noise_multiplier=mechanism.noise_multiplier * 0.97)
    assert louder.guarantee.epsilon > epsilon


def test_all_else_is_the_algorithm_s() -> None:
    mechanism = within(3.0, 4, 1.0)
    given = {"sampling_probability": 1.0, "noise_multiplier": mechanism.noise_multiplier, **OTHERS}
    assert mechanism == SERVER_MECHANISMS["dp-fedavg"](mechanism.federation, **given)
    assert SERVER_MECHANISMS["dp-fedavg-within"] is dp_fedavg_within


def sum_of(*vectors: np.ndarray) -> np.ndarray:
    return combined(arm((1,)), vector(0), vectors, [3] * len(vectors))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: plain(estimator="median"), "estimator = 'median' is not allowed: 'fixed', 'clipped'"),
        (lambda: arm((4,), clip=Layers((3, 2), (1.0, 1.0))), "clip is for 5 parameters; allowed: 4, as"),
        (lambda: Flat(0.0), "radius = 0.0 is not allowed"),
        (lambda: Layers((3, 1), (1.0,)), "radii has 1 values for 2 layers; allowed: one a layer"),
        (lambda: Layers((3, 0), (1.0, 1.0)), "sizes = 0 is not allowed"),
        (lambda: Layers((), ()), "radii is empty"),
        (lambda: Layers.equal((), 1.0), "radii is empty"),
        (lambda: Layers((1,), (-1.0,)), "radii = -1.0 is not allowed"),
        (lambda: Layers.equal((1,), math.nan), "radius = nan is not allowed"),
        (lambda: weight_of(0, 1.0), "rows = 0 is not allowed"),
        (lambda: weight_of(1, 0.0), "weight_cap = 0.0 is not allowed"),
        (lambda: arm().events(0), "rounds = 0 is not allowed"),
        (
            lambda: sum_of(vector(1, 2)),
            r"uploads of shape \(2,\) are not allowed: \(1,\), as in the federation",
        ),
        (lambda: sum_of(vector(1), vector(1, 2)), r"uploads of shapes \[\(1,\), \(2,\)\] are not allowed"),
        (lambda: arm((2,)).upload(vector(math.nan, 0), vector(0, 0), 10, words()), "NaN or an infinity"),
        (lambda: within(-1.0, 4, 1.0), "epsilon"),
    ],
)
def test_what_can_not_be(call, error):
    with pytest.raises(ValueError, match=error):
        call()
    refused(arm, sampling_probability=1.5, noise_multiplier=-1.0, weight_cap=0.0, delta=0.0)
    refused(plain, estimator=["fixed"], clip=-1.0, weight_cap=0.0, sampling_probability=0.0)
    with pytest.raises(TypeError, match="per_layer = 'no' is not allowed: true or false"):
        plain(per_layer="no")
