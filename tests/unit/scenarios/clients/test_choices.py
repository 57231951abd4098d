"""Rows, partitions and mechanisms by name: what they give, and one line for what cannot be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mechanisms.servers.server import Federation
from node.system.errors import ConfigError
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.data.dataset import FederatedDataset
from scenarios.engines.room import load
from tests.unit.scenarios.refusals import refused

FEDERATION = Federation((10, 20, 30), 5, (4, 2))


@pytest.fixture(scope="module")
def dataset() -> FederatedDataset:
    return load("breast-cancer", Path("none"), 0)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_some_rows_are_drawn_by_the_seed_alone_and_come_in_order(dataset: FederatedDataset) -> None:
    rows = RowChoice("breast-cancer", 100).chosen(dataset, rng())
    for most in (None, 455):
        assert RowChoice("breast-cancer", most).chosen(dataset, rng()).tolist() == list(range(455))
    assert len(set(rows.tolist())) == 100
    assert rows.tolist() == sorted(rows.tolist()) == RowChoice("b", 100).chosen(dataset, rng()).tolist()
    assert rows.tolist() != RowChoice("b", 100).chosen(dataset, np.random.default_rng(8)).tolist()
    with pytest.raises(ConfigError, match="breast-cancer has 455 training rows, and 456 are asked for"):
        RowChoice("breast-cancer", 456).chosen(dataset, rng())


def test_clients_get_of_the_chosen_rows_only_and_each_once_by_the_partition_s_own_parameters(dataset):
    rows = RowChoice("breast-cancer", 101).chosen(dataset, rng())
    parts = Clients("iid", 4).deal(dataset, rows, rng())
    assert [len(part) for part in parts] == [26, 25, 25, 25]
    assert sorted(np.concatenate(parts).tolist()) == rows.tolist()
    rows = np.arange(455)
    skewed, even = (
        Clients("dirichlet", 4, {"alpha": alpha}).deal(dataset, rows, rng()) for alpha in (0.1, 1e6)
    )
    shares = [[float(dataset.train_y[part].mean()) for part in parts] for parts in (skewed, even)]
    assert max(shares[0]) - min(shares[0]) > 0.5
    assert max(shares[1]) - min(shares[1]) < 0.1


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        (Clients("iid", 456), "456 clients by partition iid"),
        (Clients("iid", 0), "0 clients by partition iid"),
        (Clients("iid", 4, {"alpha": 1}), "alpha"),
        (Clients("dirichlet", 4, {"alpha": -1.0}), "-1.0"),
        (Clients("natural", 4), "allowed: iid, dirichlet, shards, quantity"),
    ],
)
def test_a_partition_that_can_not_be_is_one_line(
    dataset: FederatedDataset, clients: Clients, said: str
) -> None:
    with refused(said):
        clients.deal(dataset, np.arange(455), rng())


@pytest.mark.parametrize(
    ("path", "parameters", "said"),
    [
        ("fedsgd", {}, "mechanism 'fedsgd' is unknown; allowed: fedavg, fedavgm,"),
        ("nowhere.at_all:Thing", {}, "nowhere"),
        ("tests.own_mechanisms:Nothing", {}, "Nothing"),
        ("fedavg", {}, "clients_per_round"),
        ("fedavg", {"clients_per_round": 4}, "clients_per_round = 4 is not allowed: at most 3"),
        ("fedavg", {"clients_per_round": 2, "speed": 1}, "speed"),
        ("tests.own_mechanisms:Raising", {}, "the noise machine is out of order"),
        ("tests.own_mechanisms:Unfinished", {}, "is no server-side mechanism: it has no after_batch,"),
        (
            "tests.own_mechanisms:Former",
            {"clients_per_round": 2},
            "has combine(model, uploads, rows, words); allowed: combine(model, state, uploads, words)",
        ),
    ],
)
def test_a_mechanism_that_can_not_be_is_one_line(path: str, parameters: dict[str, Any], said: str) -> None:
    with refused(said):
        MechanismChoice(path, parameters).make(FEDERATION)
