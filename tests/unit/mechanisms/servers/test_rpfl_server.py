"""RPFL as a server's mechanism: its budget, its noise, its regulariser, and what combines uploads."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, privacy_spent
from mechanisms.servers import robust, rpfl
from mechanisms.servers.rpfl_server import (
    FIRST_STEP,
    LinearNorm,
    Rpfl,
    SpectralProduct,
    Theorem,
    regulariser_of,
    rpfl_of,
)
from mechanisms.servers.server import Federation, Step, weighted_mean
from tests.unit.mechanisms.settings import combined, uploads_of, words

ROWS = (100, 50, 200)
LINEAR = Federation(ROWS, 5, (4, 1))
NETWORK = Federation(ROWS, 5, (12, 4, 8, 2))
THEOREM = {"lipschitz": 1.0, "steps": 10, "convexity": 0.01, "constant": 1.0}


def made(federation: Federation = LINEAR, **change: Any) -> Rpfl:
    usual = {"clients_per_round": 3, "epsilon": 1.0, "caps": [0.5, 2.0], "delta": 1e-5, "row_norm": 1.0}
    usual |= {"widths": [3, 4, 2] if federation is NETWORK else [4, 1], "theorem": THEOREM}
    return rpfl_of(federation, **{**usual, "gamma": 0.05, "weight": 0.1, **change})


def test_the_budget_is_dealt_by_the_allocation_and_the_caps_go_round() -> None:
    """Where no cap is met it goes by the root of rows times noise: nearly uniform, whatever the rows."""
    mechanism, free = made(), made(caps=[10.0])
    at_one = [Theorem(**THEOREM).noise_std(1.0, 1e-5, n) for n in ROWS]
    weights = [n * std * math.sqrt(4) for n, std in zip(ROWS, at_one, strict=True)]
    assert mechanism.epsilons == pytest.approx(rpfl.allocate(weights, [0.5, 2.0, 0.5], 3.0))
    assert mechanism.epsilons == (0.5, pytest.approx(2.0), 0.5)
    assert free.epsilons == pytest.approx(3.0 * np.sqrt(weights) / np.sqrt(weights).sum())
    assert max(free.epsilons) < 1.02 * min(free.epsilons)
    for rows, epsilon, std in zip(ROWS, mechanism.epsilons, mechanism.noise_stds, strict=True):
        assert std == pytest.approx(rpfl.theorem_noise_std(epsilon, 1e-5, 1.0, 10, rows, 0.01, 1.0))


def test_the_epsilon_that_a_record_truly_has_is_far_above_the_stated() -> None:
    guarantee = made().guarantee
    assert guarantee.stated == pytest.approx(2.0)
    assert guarantee.epsilon == pytest.approx(rpfl.record_epsilon(min(made().noise_stds), 1e-5, 1.0))
    assert guarantee.epsilon > 10 * guarantee.stated


def test_radii_are_the_formula_s() -> None:
    mechanism = made()
    stds = mechanism.noise_stds
    expected = [rpfl.radius(std, 4, rows, 0.05, 1.0) for std, rows in zip(stds, ROWS, strict=True)]
    assert mechanism.radii == pytest.approx(expected)
    mean, found = np.average(expected, weights=ROWS), mechanism.figures
    assert (found["mean radius"], found["factor on the radii"]) == pytest.approx((mean, 0.1 / mean))
    noise = found["least noise std on rows"], found["largest noise std on rows"]
    assert (found["least epsilon dealt"], *noise) == (0.5, min(stds), max(stds))


def test_rows_get_their_own_client_s_noise() -> None:
    mechanism, x = made(), np.zeros((5000, 4), np.float32)
    for client in range(3):
        noisy, _ = mechanism.examples(x, np.zeros(5000, np.int64), client, words(client))
        assert noisy.std() == pytest.approx(mechanism.noise_stds[client], rel=0.03)


def test_what_one_step_costs_is_told_of_logistic_regression_alone() -> None:
    formula = Theorem(**{**THEOREM, "steps": 1})
    exact = [
        rpfl.first_step_epsilon(formula.noise_std(epsilon, 1e-5, n), n, 1e-5, 1.0)
        for epsilon, n in zip(made().epsilons, ROWS, strict=True)
    ]
    assert made().figures[FIRST_STEP] == max(exact) > 5 * made().guarantee.stated
    assert FIRST_STEP not in made(NETWORK).figures
    assert "upper bound for the models" in made().protects
    assert "in each round" in made(draw="each-round").protects


def test_redrawn_noise_is_new_in_each_round_and_as_large() -> None:
    mechanism, x, y = made(draw="each-round"), np.zeros((5000, 4), np.float32), np.arange(5000)
    kept, labels = mechanism.examples(x, y, 1, words(0))
    np.testing.assert_array_equal(kept, x)
    assert labels is y
    first, again, other = (mechanism.examples_of_round(kept, y, 1, words(seed)) for seed in (1, 1, 2))
    assert first[1] is y
    assert np.array_equal(first[0], again[0])
    assert abs(np.corrcoef(first[0].ravel(), other[0].ravel())[0, 1]) < 0.03
    assert first[0].std() == pytest.approx(mechanism.noise_stds[1], rel=0.03)
    assert mechanism.noise_stds == made().noise_stds
    cut, _ = mechanism.examples(np.full((300, 4), 9, np.float32), y[:300], 0, words())
    assert np.linalg.norm(cut, axis=1) == pytest.approx(np.ones(300)), "noise is for rows of this norm"
    for found, given in zip(made().examples_of_round(x, y, 0, words()), (x, y), strict=True):
        assert found is given, "drawn once, it is the same in every round"


@pytest.mark.parametrize("rounds", [1, 5, 40])
def test_redrawn_noise_is_charged_in_each_round(rounds: int) -> None:
    federation = Federation(ROWS, rounds, (4, 1))
    once, redrawn = made(federation), made(federation, draw="each-round")
    assert redrawn.events(rounds) == rounds * once.events(rounds)
    by_ledger = privacy_spent(Ledger.of(redrawn.events(rounds)), 1e-5).epsilon
    assert redrawn.guarantee.epsilon == pytest.approx(by_ledger)
    assert redrawn.guarantee.stated == pytest.approx(math.sqrt(rounds) * 2.0)
    assert (redrawn.guarantee.epsilon > math.sqrt(rounds) * once.guarantee.epsilon) == (rounds > 1)
    with pytest.raises(ValueError, match="rounds"):
        redrawn.events(0)


def test_each_client_s_weights_shrink_by_its_own_radius_and_the_bias_stays() -> None:
    mechanism = made()
    weights = torch.tensor([[3.0, 4.0, 0.0, 0.0, 7.0]]).repeat(2, 1)
    after = mechanism.after_batch(weights, torch.zeros(5), Step(np.array([2, 1]), 0.5))
    scale = 0.1 / mechanism.figures["mean radius"]
    for place, client in enumerate((2, 1)):
        threshold = 0.5 * scale * mechanism.radii[client]
        kept = 1 - threshold / 5.0
        assert after[place].tolist() == pytest.approx([3 * kept, 4 * kept, 0, 0, 7.0], rel=1e-5)
    assert weights[0].tolist() == [3.0, 4.0, 0.0, 0.0, 7.0]
    small, step = torch.tensor([[0.01, 0.0, 0.0, 0.0, 1.0]]), Step(np.array([0]), 1.0)
    found = made(weight=10.0).after_batch(small, torch.zeros(5), step)
    assert found.tolist() == [[0, 0, 0, 0, 1]], "small weights become zero and do not oscillate"
    assert made(weight=0.0).after_batch(small, torch.zeros(5), step) is small, "the algorithm as printed"


def test_a_network_s_step_is_down_its_bound_s_gradient() -> None:
    """Against differences of the bound, by numpy's singular values."""
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((2, 26))

    def bound(vector: np.ndarray) -> float:
        first, last = vector[:12].reshape(4, 3), vector[16:24].reshape(2, 4)
        return math.sqrt(2) * np.linalg.svd(first)[1][0] * np.linalg.svd(last)[1][0]

    steps = SpectralProduct((3, 4, 2)).step(torch.from_numpy(weights), torch.tensor([0.5, 2.0]))
    for own, after, threshold in zip(weights, steps.numpy(), (0.5, 2.0), strict=True):
        slopes = [(bound(own + 1e-6 * unit) - bound(own - 1e-6 * unit)) / 2e-6 for unit in np.eye(26)]
        assert own - after == pytest.approx(threshold * np.array(slopes), abs=1e-5)


def test_a_client_that_has_diverged_does_not_hurt_the_others() -> None:
    weights = torch.ones(2, 26)
    weights[0, 3] = math.inf
    after = made(NETWORK).after_batch(weights, torch.zeros(26), Step(np.array([0, 1]), 0.1))
    assert torch.equal(after[0], weights[0])
    assert torch.isfinite(after[1]).all()
    assert not torch.equal(after[1], weights[1])


def test_the_regulariser_is_the_model_s() -> None:
    assert regulariser_of([4, 1], (4, 1)) == LinearNorm(4)
    assert regulariser_of([3, 4, 2], (12, 4, 8, 2)) == SpectralProduct((3, 4, 2))
    with pytest.raises(ValueError, match=r"make tensors of \[12, 4, 8, 2\] parameters; allowed.*\[12, 4\]"):
        regulariser_of([3, 4, 2], (12, 4))
    with pytest.raises(ValueError, match="widths = 0"):
        regulariser_of([0, 1], (0, 1))


def test_uploads_become_their_mean_by_rows_or_what_an_aggregator_makes_of_them() -> None:
    rng = np.random.default_rng(1)
    uploads = list(rng.standard_normal((3, 5)).astype(np.float32))
    model = np.zeros(5, np.float32)
    assert np.array_equal(combined(made(), model, uploads, ROWS), weighted_mean(uploads, ROWS))
    median = made(aggregator="coordinate-median", parameters={})
    expected = robust.coordinate_median(np.stack(uploads))
    assert combined(median, model, uploads, ROWS) == pytest.approx(expected)
    assert (made().withstands, median.withstands) == (None, 1)


def test_what_its_aggregator_remembers_goes_through_its_rounds() -> None:
    mechanism, model = (
        made(aggregator="centred-clipping", parameters={"radius": 1.0}),
        np.zeros(5, np.float32),
    )
    sent = uploads_of(list(np.full((3, 5), 9, np.float32)), ROWS)
    lengths, state = [], mechanism.start()
    for _ in range(3):
        _, state = mechanism.combine(model, state, sent, words())
        lengths.append(float(np.linalg.norm(state)))
    assert lengths == pytest.approx([1, 2, 3])
    assert made().start() is None


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"caps": [0.0]}, ValueError, "caps holds 0.0"),
        ({"widths": [5, 1]}, ValueError, "widths"),
        ({"theorem": {"lipschitz": 1.0}}, TypeError, "steps"),
        ({"draw": "never"}, ValueError, "draw = 'never' is not allowed: 'once', 'each-round'"),
        ({"aggregator": "mode"}, ValueError, "aggregator = 'mode'"),
        ({"aggregator": "trimmed-mean", "parameters": {"trimmed": 2}}, ValueError, "trimmed = 2"),
    ],
)
def test_what_can_not_be_is_refused(change: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        made(**change)
    with pytest.raises(ValueError, match="rows = 1"):
        made(Federation((1, 5), 2, (4, 1)), clients_per_round=2)
