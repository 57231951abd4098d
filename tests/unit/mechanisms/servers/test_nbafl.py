"""NbAFL: each formula against numbers worked out by hand, and what each arm truly promises."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from mechanisms.accounting.ledger import Gaussian, Ledger, Relation, privacy_spent
from mechanisms.servers.nbafl import (
    FederatedScopeNbAFL,
    PaperNbAFL,
    constant_of,
    delta_of,
    download_exposures,
    epsilon_of_clipped_steps,
)
from mechanisms.servers.server import NO_NOISE, Federation, Step
from tests.unit.mechanisms.settings import combined, refused, vector, words

D = 40_000


def scope(**values) -> FederatedScopeNbAFL:
    """FederatedScope's own test: T = 20, 10 clients, K = 5, mu .1, c = 2, eps = 50, w_clip .1."""
    work = Federation(values.pop("rows", (30,) * 10), values.pop("rounds", 20), values.pop("sizes", (D,)))
    usual = {"clients_per_round": 5, "epsilon": 50.0, "constant": 2.0, "clip": 0.1, "proximal": 0.1}
    return FederatedScopeNbAFL(work, **{**usual, "grad_clip": None, "sizes_joined": True, **values})


def paper(**values) -> PaperNbAFL:
    work = Federation(values.pop("rows", (100, 50, 200, 80)), values.pop("rounds", 25), (D,))
    usual = {"clients_per_round": 4, "epsilon": 2.0, "delta": 0.01, "clip": 3.0, "exposures": 5}
    return PaperNbAFL(work, **{**usual, "proximal": 0.01, "grad_clip": 5.0, **values})


@pytest.mark.parametrize(("constant", "delta"), [(1, 0.758), (2, 0.169), (3, 0.0139)])
def test_the_table_s_constants_stand_for_these_deltas(constant, delta):
    assert delta_of(constant) == pytest.approx(delta, rel=2e-3)
    assert constant_of(delta_of(constant)) == pytest.approx(constant, rel=1e-12)
    assert constant_of(0.01) == pytest.approx(3.107511, rel=1e-6), "sqrt(2 ln 125), ln 125 = 4.828314"


def test_scope_upload_noise_by_hand():
    """w_clip T c / (m_i epsilon) = 0.1 * 20 * 2 / (40 * 50) = 0.002: no factor 2, the client's own rows."""
    assert scope().upload_noise_std(40) == pytest.approx(0.002, rel=1e-12)
    assert scope(epsilon=100.0, constant=1.0).upload_noise_std(10) == pytest.approx(0.002, rel=1e-12)
    sent = scope().upload(np.full(D, 5.0, np.float32), np.zeros(D, np.float32), 40, words())
    assert sent.mean() == pytest.approx(5.0, abs=1e-4), "uploads are not clipped"
    assert sent.std() == pytest.approx(0.002, rel=0.02)


def test_scope_download_noise_fires_above_a_number_of_rounds_and_never_in_the_table():
    """T = 20 > sqrt(10) * 5 = 15.8: 2 * .1 * 2 * sqrt(400 - 25 * 10) / (30 * 10 * 50) = 3.26599e-4.

    The table: 300 rounds, 40 of 200 clients, sqrt(200) * 40 = 566.
    """
    assert scope().download_noise_std == pytest.approx(3.26599e-4, rel=1e-5)
    assert scope(rows=(30,) * 9 + (15,)).download_noise_std == pytest.approx(2 * 3.26599e-4, rel=1e-5), "min"
    sent = scope().broadcast(np.zeros(D, np.float32), words())
    assert sent.std() == pytest.approx(3.26599e-4, rel=0.02)
    assert [scope(rounds=rounds).download_noise_std > 0 for rounds in (15, 16)] == [False, True]
    table = {"rows": (100,) * 200, "clients_per_round": 40}
    assert scope(**table, rounds=300).download_noise_std == 0
    assert scope(**table, rounds=566).download_noise_std > 0


def test_scope_clips_each_element_before_it_broadcasts():
    model = np.full(D, 0.5, np.float32)
    sent = scope().broadcast(model, words())
    assert sent.mean() == pytest.approx(0.1, abs=1e-5)
    assert np.abs(sent - 0.1).max() < 8 * 3.27e-4
    assert model[0] == 0.5, "the argument is not changed"
    joined = scope(sizes_joined=False)
    assert joined.download_noise_std == 0, "the documented command leaves the join info out"
    assert joined.broadcast(vector(0.05, -0.3, 0.2), words()) == pytest.approx([0.05, -0.1, 0.1])


def test_scope_s_figures_are_its_noise_and_it_promises_nothing():
    """Uploads of 60 and of 20 rows: .1 * 20 * 2 / (60 * 50) and / (20 * 50); the download has m = 20."""
    arm = scope(rows=(60,) * 9 + (20,))
    uploads = {"least upload noise std": 0.001333333, "largest upload noise std": 0.004}
    whole = {"constant / epsilon": 0.04, **uploads, "download noise std": 1.5 * 3.26599e-4}
    assert arm.figures == pytest.approx(whole, rel=1e-5)
    assert (arm.guarantee, arm.events(20)) == (None, NO_NOISE)
    assert "never clipped" in arm.protects
    assert (arm.name, arm.proximal, arm.grad_clip) == ("nbafl-federatedscope", 0.1, None)


def test_scope_averages_by_rows_as_it_is():
    assert combined(scope(), vector(0, 0), [vector(1, 1), vector(5, 9)], [1, 3]).tolist() == [4, 7]
    assert len(scope().sample(10, np.random.default_rng(0))) == 5
    weights = torch.ones(1, 2)
    assert scope().after_batch(weights, torch.zeros(2), Step(np.array([0, 1]), 0.1)) is weights


def test_paper_upload_noise_by_hand():
    """2 c C L / (m epsilon) = 2 * 3.107511 * 3 * 5 / (50 * 2) = 0.932253, for every client."""
    arm = paper()
    assert arm.upload_noise_std == pytest.approx(0.932253, rel=1e-5)
    for rows in (50, 200):
        sent = arm.upload(np.zeros(D, np.float32), np.zeros(D, np.float32), rows, words())
        assert sent.std() == pytest.approx(0.932253, rel=0.02)


def test_paper_clips_the_weights_not_the_update():
    arm = paper(epsilon=1e7)
    weights = np.full(D, 1.0, np.float32)
    sent = arm.upload(weights, weights.copy(), 50, words())
    assert np.linalg.norm(sent) == pytest.approx(3.0, rel=1e-3), "w / max(1, ||w|| / C), in the L2 norm"
    small = np.full(D, 0.001, np.float32)
    assert arm.upload(small, weights, 50, words()) == pytest.approx(small, abs=2e-6), "shorter ones stay"


def test_paper_download_noise_of_all_clients_by_hand():
    """2 c C sqrt(T^2 - L^2 N) / (m N eps) = 2 * 3.107511 * 3 * sqrt(625 - 100) / (50 * 4 * 2) = 1.068030."""
    assert paper().download_noise_std == pytest.approx(1.068030, rel=1e-5)
    assert paper(exposures=13).download_noise_std == 0, "25 < 13 * 2"
    assert paper(exposures=12).download_noise_std > 0, "25 > 12 * 2"


def test_paper_download_noise_of_some_clients_by_hand():
    """K = 2 of N = 4, T = 25, L = 5, eps = 2.

    gamma = -ln(1/2 + 1/2 e^(-2 / (5 sqrt 2))) = 0.131455, eps / gamma = 15.2144 < 25: it fires.
    b = -12.5 ln(1 - 2 + 2 e^(-0.08)) = 2.087011; sqrt((25 / b)^2 - 50) = 9.669172.
    sigma_D = 2 * 3.107511 * 3 * 9.669172 / (50 * 2 * 2) = 0.901412.
    """
    gamma = -math.log(0.5 + 0.5 * math.exp(-2 / (5 * math.sqrt(2))))
    assert gamma == pytest.approx(0.131455, rel=1e-5)
    b = -12.5 * math.log(-1 + 2 * math.exp(-0.08))
    assert b == pytest.approx(2.087011, rel=1e-5)
    assert download_exposures(2.0, 25, 4, 2, 5) == pytest.approx(math.sqrt((25 / b) ** 2 - 50), rel=1e-9)
    assert paper(clients_per_round=2).download_noise_std == pytest.approx(0.901412, rel=1e-5)
    fires = [paper(clients_per_round=2, rounds=rounds).download_noise_std > 0 for rounds in (15, 16)]
    assert fires == [False, True], "above eps / gamma"


def test_the_condition_fires_exactly_where_the_square_is_positive():
    """T > eps / gamma is T / b > L sqrt K: with fewer rounds the logarithm of b may not even exist."""
    rng = np.random.default_rng(3)
    fired = 0
    for _ in range(500):
        clients = int(rng.integers(2, 60))
        chosen, rounds = int(rng.integers(1, clients + 1)), int(rng.integers(1, 200))
        exposures, epsilon = int(rng.integers(1, 9)), float(10 ** rng.uniform(-2, 2))
        inner = 1 - clients / chosen * (1 - math.exp(-epsilon / rounds))
        wanted = 0.0
        if inner > 0:
            b = -rounds / epsilon * math.log(inner)
            wanted = math.sqrt(max(0.0, (rounds / b) ** 2 - exposures**2 * chosen))
        got = download_exposures(epsilon, rounds, clients, chosen, exposures)
        assert got == pytest.approx(wanted, rel=1e-6, abs=1e-3)
        fired += got > 0
    assert 100 < fired < 400


def test_paper_noises_what_it_has_averaged():
    arm = paper()
    ones = np.ones(D, np.float32)
    new = combined(arm, np.zeros(D, np.float32), [ones, 5 * ones], [1, 3])
    assert new.mean() == pytest.approx(4.0, abs=5 * 1.068 / math.sqrt(D))
    assert new.std() == pytest.approx(1.068030, rel=0.02)
    quiet = paper(exposures=13)
    assert combined(quiet, np.zeros(D, np.float32), [ones], [7]).tolist() == ones.tolist()
    model, weights = vector(1, 2), torch.ones(1, 2)
    assert arm.broadcast(model, words()) is model
    assert len(arm.sample(4, np.random.default_rng(0))) == 4
    assert (arm.name, arm.proximal, arm.grad_clip) == ("nbafl", 0.01, 5.0)
    assert arm.after_batch(weights, torch.zeros(2), Step(np.array([0, 1]), 0.1)) is weights


def test_paper_s_proved_epsilon_takes_two_radii_for_the_sensitivity():
    """z = sigma_U / (2 C) = c L / (m epsilon) = 3.107511 * 5 / (50 * 2) = 0.155376 an upload."""
    arm = paper()
    z = 0.1553755
    assert [event.noise_multiplier for event in arm.events(3)] == pytest.approx([z] * 3, rel=1e-5)
    guarantee = arm.guarantee
    assert guarantee.epsilon == pytest.approx(
        privacy_spent(Ledger(((Gaussian(z), 25),)), 0.01).epsilon, rel=1e-4
    )
    assert guarantee.epsilon > 500 > guarantee.stated == 2.0
    assert (guarantee.unit.relation, guarantee.unit.norm) == (Relation.REPLACE, "L2")
    assert guarantee.unit.what == "one client's whole data set, over the run"
    assert "the paper states epsilon 2 " in arm.protects
    assert f"{guarantee.epsilon:.4g}" in arm.protects


def test_paper_s_claim_needs_what_training_does_not_ensure():
    """L = 5 releases of z = c L / epsilon = 7.768777: one of 3.474303."""
    claim = paper().claim
    assert claim.epsilon == pytest.approx(
        privacy_spent(Ledger.of([Gaussian(3.474303)]), 0.01).epsilon, rel=1e-4
    )
    assert claim.unit.what.startswith("one record")
    assert "2 C / m" in claim.outside
    assert claim.stated == 2.0
    noise = {"constant / epsilon": 1.553756, "upload noise std": 0.932253, "download noise std": 1.06803}
    whole = {**noise, "epsilon under the paper's sensitivity": claim.epsilon}
    assert paper().figures == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("make", [scope, paper])
def test_what_is_no_number_is_refused(make):
    refused(make, epsilon=0.0)
    bad = vector(1.0, math.nan)
    with pytest.raises(ValueError, match="NaN or an infinity"):
        (make().broadcast(bad, words()) if make is scope else make().upload(bad, bad, 50, words()))


def test_what_else_can_not_be():
    refused(constant_of, delta=0.0)
    refused(scope().upload_noise_std, rows=0)
    refused(paper().events, rounds=0)
    with pytest.raises(ValueError, match="exposures = 26 is not allowed: at most 25, the rounds"):
        paper(exposures=26)
    with pytest.raises(ValueError, match=r"delta of this constant = 1\.24"):
        delta_of(0.1)


def test_clipped_steps_prove_an_epsilon_by_the_exact_formula_of_one_gaussian():
    """T releases of multiplier z cost what one of z / sqrt(T) does (Balle & Wang 2018, Theorem 8)."""
    movement, steps, noise_std, rounds, delta = 0.015 * 5, 4, 0.045, 60, 0.0139
    mu = math.sqrt(rounds) * 2 * movement * steps / noise_std

    def excess(epsilon: float) -> float:
        beyond = norm.logsf(epsilon / mu - mu / 2), epsilon + norm.logsf(epsilon / mu + mu / 2)
        return math.exp(beyond[0]) - math.exp(beyond[1]) - delta

    by_formula = brentq(excess, 1.0, 2e4)
    found = epsilon_of_clipped_steps(movement, steps, noise_std, rounds, delta)
    assert found == pytest.approx(by_formula, rel=1e-6)
    assert found > epsilon_of_clipped_steps(movement, steps, 2 * noise_std, rounds, delta)
