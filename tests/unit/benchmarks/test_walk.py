"""The walk: whose rows are whose, the noise of the server it stands beside, and what counts as close."""

import numpy as np
import pytest

from benchmarks.walk.benchmark import FACTORS, Found, verdicts
from benchmarks.walk.central import central_auc, plain_auc
from benchmarks.walk.rows import features, hospitals, ill
from node.task.step_defaults import step_defaults


def found(seed: int, swarm: float, mlp: float, linear: float) -> Found:
    central = {
        kind: {factor: best - 0.01 * (factor != FACTORS[2]) for factor in FACTORS}
        for kind, best in (("MLP", mlp), ("Linear", linear))
    }
    return Found(seed, swarm, central, 0.9, "MLP", 1.0, 7.0)


def test_no_row_is_in_two_walks_or_both_old_and_new() -> None:
    parts = [
        features(part) for seed in range(2) for part in (hospitals(50, seed).old, hospitals(50, seed).new)
    ]
    rows = [tuple(row) for part in parts for row in part.tolist()]
    assert len(set(rows)) == len(rows) == 4 * 3 * 50
    assert np.array_equal(features(hospitals(50, 1).new), parts[3])


def test_the_swarm_stands_beside_the_best_of_the_servers_rates() -> None:
    mlp, linear = verdicts([found(0, 0.80, 0.81, 0.83), found(1, 0.82, 0.83, 0.85)])
    assert (mlp.model, mlp.factor, mlp.central) == ("MLP", FACTORS[2], pytest.approx(0.82))
    assert (mlp.difference, mlp.holds) == (pytest.approx(-0.01), True)
    assert (linear.difference, linear.holds) == (pytest.approx(-0.03), False)
    assert mlp.standard_error == pytest.approx(0.0)
    assert verdicts([found(0, 0.8, 0.8, 0.8)])[0].standard_error is None


def test_a_server_learns_from_all_rows_and_from_less_with_more_noise() -> None:
    sites = hospitals(400, 0)
    few = step_defaults(1200, 8.0, frozen_body=False)
    assert few.expected_batch == 1200 == len(ill(sites.old))
    clear, blurred = (central_auc(sites, "Linear", epsilon, 1.0, 0) for epsilon in (8.0, 0.02))
    assert clear > 0.75 > blurred
    assert plain_auc(sites) > 0.78
