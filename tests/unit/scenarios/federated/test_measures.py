"""Measurements of a final model besides its accuracy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from mechanisms.audits.membership import Losses
from mechanisms.noise.randomness import SeededWords
from node.task.sections import ModelSection, TrainSection
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.clients.poisons import NOBODY, Attackers, Backdoor, LabelFlip, Trigger
from scenarios.clients.work import client_work
from scenarios.data.dataset import FederatedDataset
from scenarios.data.models import Logistic
from scenarios.engines.room import load
from scenarios.federated import measures
from tests.own_studies import PLAIN
from tests.unit.scenarios.rooms import replayed

HERE = Path("none")


@pytest.fixture(scope="module")
def dataset() -> FederatedDataset:
    return load("breast-cancer", HERE, 0)


def test_logits_are_the_model_s_and_rank_as_by_hand(dataset):
    work = client_work(PLAIN, dataset)
    vector = work.start + 1
    with torch.no_grad():
        for parameter in work.model.parameters():
            parameter.add_(1)
        expected = work.model(torch.from_numpy(dataset.test_x)).numpy()
    assert measures.logits(work, vector, dataset.test_x) == pytest.approx(expected, rel=1e-5)
    work = client_work(replace(PLAIN, measures=("ranking",)), dataset)
    found = measures.measures_of(work, work.start)
    outputs, y = measures.logits(work, work.start, dataset.test_x), dataset.test_y
    right = outputs.argmax(axis=1) == y
    score = outputs[:, 1] - outputs[:, 0]
    pairs = score[y == 1][:, None] - score[y == 0][None]
    assert found[measures.BALANCED] == pytest.approx((right[y == 0].mean() + right[y == 1].mean()) / 2)
    assert found[measures.AUC] == pytest.approx((pairs > 0).mean() + (pairs == 0).mean() / 2)
    assert found[measures.MAJORITY] == pytest.approx(max((y == 0).mean(), (y == 1).mean()))


def test_a_backdoor_that_was_learned_is_seen(dataset: FederatedDataset) -> None:
    trigger = Trigger({0: 6.0, 1: -6.0}, target=1)
    cell = replace(PLAIN, measures=("backdoor",), attackers=Attackers(0.0, Backdoor(trigger, 0.5)))
    honest = replayed(cell).facts[measures.BACKDOOR]
    broken = replayed(replace(cell, attackers=Attackers(0.4, Backdoor(trigger, 0.5)))).facts[
        measures.BACKDOOR
    ]
    assert honest < 0.5 < broken


@pytest.mark.sampled
def test_rows_learned_by_heart_are_told_from_others_and_noise_on_rows_prevents_it() -> None:
    cell = replace(
        PLAIN,
        rows=RowChoice("breast-cancer", 40, 1.0),
        clients=Clients("iid", 2),
        mechanism=MechanismChoice("fedavg", {"clients_per_round": 2}),
        train=TrainSection(
            rounds=4, epochs=25, batch_size=10, learning_rate=0.3, momentum=0.9, grad_clip=5.0
        ),
        measures=("membership",),
    )
    noise = {"clients_per_round": 2, "epsilon": 1.0, "delta": 1e-5, "row_norm": 1.0}
    noised_cell = replace(cell, mechanism=MechanismChoice("row-noise", noise))
    plain, noised = ([replayed(one.seeded(seed)).facts for seed in range(3)] for one in (cell, noised_cell))
    for name in ("membership AUC", "calibrated membership AUC"):
        leaked, kept = (np.mean([float(facts[name] or 0) for facts in each]) for each in (plain, noised))
        assert leaked > 0.53, name
        assert abs(kept - 0.5) < 0.08, name
    assert any(facts["membership AUC"] != facts["calibrated membership AUC"] for facts in plain)
    assert all(0 <= float(facts["membership accuracy"] or 0) <= 1 for facts in (*plain, *noised))


def test_a_threshold_is_not_judged_by_the_rows_that_it_was_chosen_by() -> None:
    """Losses without information give half right guesses; the best threshold has more on its own rows."""
    rng = np.random.default_rng(5)
    found = [
        measures.told("m", Losses(rng.random(20), rng.random(20)), SeededWords(np.random.default_rng(seed)))
        for seed in range(400)
    ]
    assert np.mean([each["m accuracy"] for each in found]) == pytest.approx(0.5, abs=0.02)
    assert np.mean([each["m AUC"] for each in found]) == pytest.approx(0.5, abs=0.02)


def test_logistic_regression_is_the_logistic_loss_of_one_score() -> None:
    model, rows = Logistic(3), torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]])
    score = rows @ model.line.weight[0] + model.line.bias
    y = torch.tensor([1, 0])
    expected = functional.binary_cross_entropy_with_logits(score, y.float())
    assert functional.cross_entropy(model(rows), y).item() == pytest.approx(expected.item(), rel=1e-6)


LOGISTIC = replace(
    PLAIN,
    model=ModelSection("scenarios.models:Logistic", {"features": 30}),
    train=replace(PLAIN.train, weight_decay=0.05),
    measures=("excess",),
)


def newton(x: np.ndarray, y: np.ndarray, decay: float) -> tuple[np.ndarray, float]:
    """The least of the logistic loss with decay, the bias's too, by Newton's method; and where it is."""
    rows, signs, at = np.column_stack([x, np.ones(len(x))]).astype(np.float64), 2.0 * y - 1, np.zeros(31)
    for _ in range(30):
        p = 1 / (1 + np.exp(-rows @ at))
        slope = rows.T @ (p - y) / len(y) + decay * at
        at -= np.linalg.solve((rows * (p * (1 - p))[:, None]).T @ rows / len(y) + decay * np.eye(31), slope)
    return at, float(np.logaddexp(0, -signs * (rows @ at)).mean() + decay / 2 * at @ at)


def test_the_excess_is_the_loss_less_the_least_of_newton_s_method(dataset: FederatedDataset) -> None:
    """Of honest clients' own rows, whatever attackers and mechanisms make of theirs."""
    cell = replace(LOGISTIC, attackers=Attackers(0.4, LabelFlip(2)))
    work = client_work(cell, dataset)
    x, y = (values[measures.honest_rows(work)] for values in (dataset.train_x, dataset.train_y))
    best, least = newton(x, y, 0.05)
    found = measures.measures_of(work, np.zeros(31, np.float32))
    assert found == {measures.EXCESS: pytest.approx(np.log(2) - least, abs=1e-8)}
    assert measures.measures_of(work, best.astype(np.float32)) == {
        measures.EXCESS: pytest.approx(0, abs=1e-8)
    }


def test_what_cannot_be_measured_is_left_out(dataset: FederatedDataset) -> None:
    """A backdoor that is none, and membership and excess where the rows are elsewhere, as at a server."""
    assert set(measures.MEASURES) == {"ranking", "backdoor", "membership", "excess"}
    bare = client_work(replace(PLAIN, measures=("backdoor",), attackers=NOBODY), dataset)
    assert measures.measures_of(bare, bare.start) == {}
    there = replace(dataset, train_x=dataset.train_x[:1], train_y=dataset.train_y[:1])
    for cell in (replace(PLAIN, measures=("membership",)), LOGISTIC):
        work = client_work(cell, dataset)
        assert measures.measures_of(replace(work, dataset=there), work.start) == {}
