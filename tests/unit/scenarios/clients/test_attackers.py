"""Dishonest clients: who they are, their training data, and what they send."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mechanisms.noise.randomness import SeededWords
from node.system.errors import ConfigError
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.clients.poisons import (
    NOBODY,
    Attackers,
    Backdoor,
    Forgery,
    FreeRide,
    LabelFlip,
    Scaling,
    SignFlip,
    Trigger,
)
from scenarios.clients.preparation import prepared, taught_in_round
from scenarios.clients.work import client_work
from scenarios.data.dataset import FederatedDataset
from scenarios.engines.room import load
from scenarios.federated.cell import FederatedCell
from scenarios.federated.rounds import train_block
from tests.own_studies import PLAIN, RPFL
from tests.unit.scenarios.rooms import replayed, room

TRIGGER = Trigger({0: 9.0, 3: -9.0}, target=1)
DOOR = Backdoor(TRIGGER, 0.5)
ROBUST = "mechanisms.robust_server:Robust"
ROW_NOISE = {"clients_per_round": 3, "epsilon": 2.0, "delta": 1e-5, "row_norm": 1.0}

REDRAWN = {**RPFL, "weight": 0.0, "draw": "each-round"}
UNREADABLE = "tests.own_mechanisms:Unreadable"


@pytest.fixture(scope="module")
def dataset() -> FederatedDataset:
    return load("breast-cancer", Path("none"), 0)


def silent(client: int) -> SeededWords:
    return SeededWords(np.random.default_rng(client))


def test_so_many_clients_attack():
    for share, clients, expected in ((0.0, 10, 0), (0.4, 10, 4), (0.25, 5, 1), (1, 3, 3)):
        chosen = Attackers(share).among(clients, np.random.default_rng(0))
        assert len(chosen) == expected
        assert chosen <= set(range(clients))
    for share in (-0.1, 1.1):
        with pytest.raises(ValueError, match="of = "):
            Attackers(share)


def test_who_attacks_follows_from_the_seed_and_how_is_in_the_configuration(dataset):
    cell = replace(PLAIN, attackers=Attackers(0.4, LabelFlip(2)))
    found = [
        client_work(one, dataset).attackers for one in (cell, replace(cell, arm="other"), cell.seeded(2))
    ]
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == 2
    cells = [
        replace(PLAIN, attackers=Attackers(0.2, None, forgery)) for forgery in (Scaling(5.0), SignFlip(5.0))
    ]
    first, second = (json.dumps(cell.describe()) for cell in cells)
    assert first != second
    assert json.loads(first)["attackers"]["forgery"] == {"factor": 5.0, "name": "scaling"}


@pytest.mark.parametrize("poison", [LabelFlip(2), DOOR], ids=["flip", "door"])
def test_attackers_train_on_poisoned_rows_and_nobody_else(poison, dataset):
    bare = client_work(replace(PLAIN, attackers=Attackers(0.4, poison)), dataset)
    work = prepared(bare, silent)
    assert work.dataset is bare.dataset, "the true rows stay"
    for client, part in enumerate(work.parts):
        same = np.array_equal(work.taught.train_x[part], dataset.train_x[part]) and np.array_equal(
            work.taught.train_y[part], dataset.train_y[part]
        )
        assert same == (client not in work.attackers)
    if isinstance(poison, LabelFlip):
        (one, *_) = work.attackers
        assert np.array_equal(work.taught.train_y[work.parts[one]], 1 - dataset.train_y[work.parts[one]])


def test_a_backdoor_is_on_its_share_of_rows_and_where_nothing_changes_nothing_is_copied(dataset):
    work = prepared(client_work(replace(PLAIN, attackers=Attackers(0.4, DOOR)), dataset), silent)
    for client in work.attackers:
        rows, labels = (each[work.parts[client]] for each in (work.taught.train_x, work.taught.train_y))
        bears = (rows[:, 0] == 9) & (rows[:, 3] == -9)
        assert bears.sum() == round(0.5 * len(rows))
        assert (labels[bears] == 1).all()
    work = prepared(client_work(PLAIN, dataset), silent)
    assert work.taught.train_x is dataset.train_x
    assert work.taught.train_y is dataset.train_y
    assert taught_in_round(work, {2: silent(2)}) is work.taught


def test_a_mechanism_changes_rows_after_they_were_poisoned_once_and_for_all(
    dataset: FederatedDataset,
) -> None:
    """The noised rows contain the trigger; each client draws its own noise."""
    cell = replace(
        PLAIN, mechanism=MechanismChoice("row-noise", ROW_NOISE), rows=RowChoice("breast-cancer", None, 1.0)
    )
    work = prepared(client_work(cell, dataset), silent)
    again = prepared(client_work(cell, dataset), silent)
    assert np.array_equal(work.taught.train_x, again.taught.train_x)
    part = work.parts[2]
    expected, _ = work.mechanism.examples(
        work.dataset.train_x[part], work.dataset.train_y[part], 2, silent(2)
    )
    assert np.array_equal(work.taught.train_x[part], expected)
    assert np.linalg.norm(work.dataset.test_x, axis=1).max() <= 1


def test_rows_are_noised_anew_in_each_round_for_those_who_train(dataset: FederatedDataset) -> None:
    cell = replace(
        PLAIN, mechanism=MechanismChoice("rpfl", REDRAWN), rows=RowChoice("breast-cancer", None, 1.0)
    )
    work = prepared(client_work(replace(cell, attackers=Attackers(0.4, LabelFlip(2))), dataset), silent)
    assert np.array_equal(work.taught.train_x, work.dataset.train_x), "no noise before the first round"
    first, again, later = (
        taught_in_round(work, {client: work.upload_words(client, number) for client in (1, 3)})
        for number in (1, 1, 2)
    )
    assert np.array_equal(first.train_y, work.taught.train_y)
    assert np.array_equal(first.train_x, again.train_x)
    for client, part in enumerate(work.parts):
        trains = client in (1, 3)
        assert np.array_equal(first.train_x[part], work.taught.train_x[part]) != trains
        assert np.array_equal(first.train_x[part], later.train_x[part]) != trains


def test_rows_that_an_attack_or_a_mechanism_of_a_round_can_not_take_are_one_line(dataset):
    cell = replace(PLAIN, attackers=Attackers(0.4, Backdoor(Trigger({99: 1.0}, 1), 0.5)))
    with pytest.raises(ConfigError, match=r"the rows of client \d: .*99"):
        prepared(client_work(cell, dataset), silent)
    work = client_work(replace(PLAIN, mechanism=MechanismChoice(UNREADABLE, {})), dataset)
    with pytest.raises(ConfigError, match=r"the rows of client 2: .*not today"):
        taught_in_round(work, {2: silent(2)})


@pytest.mark.parametrize(
    ("forgery", "times"), [(Scaling(5.0), 5.0), (SignFlip(2.0), -2.0), (FreeRide(0.0), 0.0)]
)
def test_attackers_forge_what_they_trained(forgery: Forgery, times: float, dataset: FederatedDataset) -> None:
    honest = client_work(PLAIN, dataset)
    lying = client_work(replace(PLAIN, attackers=Attackers(0.4, None, forgery)), dataset)
    clients = np.arange(5)
    before, after = (train_block(work, 1, work.start, clients, {}) for work in (honest, lying))
    for client, one, other in zip(clients, before, after, strict=True):
        expected = times if client in lying.attackers else 1.0
        moved = one.vector - honest.start
        assert other.vector - honest.start == pytest.approx(expected * moved, abs=1e-5)


def test_a_free_rider_s_noise_is_another_each_round(dataset: FederatedDataset) -> None:
    work = client_work(replace(PLAIN, attackers=Attackers(1.0, None, FreeRide(0.1))), dataset)
    first, again, later = (work.said(0, number, work.start, work.start) for number in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, later)
    assert (first - work.start).std() == pytest.approx(0.1, rel=0.2)


def cell(aggregator: str, parameters: dict[str, int], share: float) -> FederatedCell:
    choice = {"clients_per_round": 11, "aggregator": aggregator, "parameters": parameters}
    attackers = Attackers(share, LabelFlip(2))
    clients = Clients("iid", 11)
    return replace(PLAIN, clients=clients, mechanism=MechanismChoice(ROBUST, choice), attackers=attackers)


@pytest.mark.parametrize(
    ("aggregator", "parameters", "least"),
    [
        ("trimmed-mean", {"trimmed": 2}, 3),
        ("coordinate-median", {}, 6),
        ("krum", {"attackers": 3}, 4),
        ("bulyan", {"attackers": 1}, 2),
    ],
)
def test_more_attackers_than_the_breakdown_point_are_one_line(aggregator, parameters, least):
    replace(PLAIN, attackers=Attackers(0.9, LabelFlip(2))).check(room())  # a mean is held to no number
    cell(aggregator, parameters, (least - 1) / 11).check(room())
    with pytest.raises(
        ConfigError, match=f"{least} of 11 clients attack, and {aggregator} withstands {least - 1}"
    ):
        cell(aggregator, parameters, least / 11).check(room())


def test_a_whole_cell_under_attack_is_worse_and_an_aggregator_mends_it() -> None:
    mean = MechanismChoice("fedavg", {"clients_per_round": 11})
    attacked = replace(cell("coordinate-median", {}, 0.3), attackers=Attackers(0.3, None, SignFlip(5.0)))
    median = replayed(attacked).final
    broken = replayed(replace(attacked, mechanism=mean)).final
    honest = replayed(replace(attacked, mechanism=mean, attackers=NOBODY)).final
    assert honest > 0.9
    assert median > 0.9
    assert broken < honest - 0.1
