"""Facts and series of federated cells: clients, costs, epsilon by round."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mechanisms.accounting.ledger import Ledger, privacy_spent
from scenarios.clients.choices import Clients, MechanismChoice
from scenarios.clients.poisons import Attackers
from scenarios.clients.work import client_work
from scenarios.engines.room import load
from scenarios.federated.reported import Census, Exchange, as_measured, census_of, with_clients
from scenarios.study.cells import Outcome
from scenarios.study.client_accuracy import CORRECT, SPREAD, TESTED, WORST
from scenarios.study.costs import DOWN, MEASURED, TRAFFIC, UP, epsilon_after
from scenarios.study.skew import CLIENTS, DISTANCE, FEWEST, label_counts, label_distances
from tests.own_studies import NOISED, PLAIN
from tests.unit.scenarios.rooms import replayed

HERE = Path("none")
SKEWED = replace(PLAIN.lasting(3), clients=Clients("dirichlet", 6, {"alpha": 0.3}))
POISSON = {"clip": 1.0, "per_layer": False, "estimator": "fixed", "weight_cap": 91.0, "delta": 1e-5}
D = 30 * 8 + 8 + 8 * 2 + 2


def test_a_cell_tells_of_its_clients_its_partition_and_its_bytes() -> None:
    outcome, work = replayed(SKEWED), client_work(SKEWED, load("breast-cancer", HERE, 0))
    labels = [work.dataset.train_y[part] for part in work.parts]
    assert (outcome.facts[CLIENTS], outcome.facts[FEWEST]) == (6, min(map(len, labels)))
    assert outcome.facts[DISTANCE] == label_distances(label_counts(labels, 2)).mean() > 0.1
    tested, correct = outcome.series[TESTED], outcome.series[CORRECT]
    assert sum(correct) / sum(tested) == pytest.approx(outcome.final)
    by_label = np.divide(correct, tested)
    shares = [np.bincount(own, minlength=2) / len(own) for own in labels]
    assert outcome.facts[WORST] == pytest.approx(min(float(share @ by_label) for share in shares))
    assert outcome.facts[SPREAD] == pytest.approx(np.std([float(share @ by_label) for share in shares]))
    assert (outcome.facts[UP], outcome.facts[DOWN], outcome.facts[MEASURED]) == (4 * D, 4 * D, False)
    assert outcome.series[TRAFFIC] == (2 * 3 * 4 * D,) * 3


def test_dishonest_clients_are_dealt_rows_but_their_accuracy_does_not_count() -> None:
    attacked = replace(SKEWED, attackers=Attackers(0.5))
    work = client_work(attacked, load("breast-cancer", HERE, 0))
    census = census_of(work)
    assert census.counts.sum() == len(work.dataset.train_y)
    assert {client for client, honest in enumerate(census.honest) if not honest} == work.attackers
    assert len(work.attackers) == 3
    right = Outcome((0.5,), {}, 1.0, {TESTED: (10.0, 10.0), CORRECT: (10.0, 0.0)})
    census = Census(np.array([[3, 1], [0, 4], [2, 2]]), np.array([True, False, True]))
    found = with_clients(right, census).facts
    assert (found[WORST], found[CLIENTS]) == (0.5, 3), "the attacker's would be 0"


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        (NOISED.mechanism.path, NOISED.mechanism.parameters),
        ("dp-fedavg", {**POISSON, "sampling_probability": 0.5, "noise_multiplier": 1.0}),
        ("label-dp", {"clients_per_round": 3, "epsilon": 1.0, "classes": 2}),
    ],
)
def test_epsilon_until_a_round_is_what_the_accountant_says_of_as_many_rounds(path: str, parameters) -> None:
    cell = replace(PLAIN.lasting(3), arm="private", mechanism=MechanismChoice(path, parameters))
    outcome, mechanism = replayed(cell), client_work(cell, load("breast-cancer", HERE, 0)).mechanism
    assert epsilon_after(outcome, 3) == outcome.facts["epsilon"]
    delta = outcome.facts["delta"]
    if outcome.facts["epsilon"] is not None and delta:
        for rounds in (1, 2):
            assert (
                epsilon_after(outcome, rounds)
                == privacy_spent(Ledger.of(mechanism.events(rounds)), delta).epsilon
            )
        assert epsilon_after(outcome, 1) < epsilon_after(outcome, 3)
    else:
        assert epsilon_after(outcome, 1) == outcome.facts["epsilon"]


def test_what_a_server_s_node_counted_replaces_the_bytes_of_vectors() -> None:
    bare = Outcome((0.1, 0.2, 0.3), {UP: 8, DOWN: 8, MEASURED: False}, 1.0, {TRAFFIC: (48.0, 0.0, 48.0)})
    found = as_measured(bare, [Exchange(1, 60, 40, 3, 2), Exchange(3, 66, 44, 3, 2)])
    assert (found.facts[UP], found.facts[DOWN], found.facts[MEASURED]) == (84 / 4, 126 / 6, True)
    assert found.series[TRAFFIC] == (100.0, 0.0, 110.0)
    assert as_measured(bare, []) == bare
    assert as_measured(bare, [Exchange(1, 60, 0, 3, 0)]) == bare
