"""Grids and tables: which cells they give, and one line for each thing that is wrong."""

import pytest

from node.task.sections import DataSection
from scenarios.federated.cell import FederatedCell
from scenarios.own.grid import arm_name, factor_names, grid
from scenarios.own.tables import cell_of
from scenarios.swarms.cells import SwarmCell
from scenarios.swarms.dealt import PeersCell
from tests.unit.scenarios.refusals import refused

BASE = {
    "peers": 4,
    "data": {"source": "digits"},
    "model": {"class": "node.models:MLP", "args": {"sizes": [64, 10]}},
    "train": {"rounds": 3},
}
SERVED = {**BASE, "server": {}}
MEDIAN = "mechanisms.servers.robust:coordinate_median"
FORGER = "tests.own_attacks:Forger"


def test_an_arm_for_each_combination_the_last_key_fastest_with_its_factors():
    arms = grid(BASE, {"privacy.mechanism": ["ldp", "dp-sgd"], "privacy.epsilon": [1, 8.5]})
    names = ["ldp-epsilon1", "ldp-epsilon8.5", "dp-sgd-epsilon1", "dp-sgd-epsilon8.5"]
    assert [arm.arm for arm in arms] == names
    assert arms[1].factors == {"mechanism": "ldp", "epsilon": 8.5}
    cell = arms[1].cell
    assert isinstance(cell, SwarmCell)
    assert (cell.task.privacy.mechanism, cell.task.privacy.epsilon, cell.peers) == ("ldp", 8.5, 4)
    assert (cell.seed, cell.rounds) == (0, 3)
    assert BASE["train"] == {"rounds": 3}  # the base is left as it was
    (arm,) = grid(BASE, {}, {"peers": 6, "train.rounds": 5}, {"kind": "long"}, "long")
    assert (arm.arm, arm.factors) == ("long", {"kind": "long"})
    assert (arm.cell.rounds, arm.cell.peers) == (5, 6)


def test_factors_are_named_by_the_last_part_and_arms_like_files():
    assert factor_names(["privacy.epsilon", "peers"]) == {"privacy.epsilon": "epsilon", "peers": "peers"}
    both = ["train.epsilon", "privacy.epsilon"]
    assert factor_names(both) == {name: name for name in both}
    assert arm_name("a", {"class": "mine:Attack", "share": 0.2, "own": True}) == "a-Attack-share0.2-owntrue"
    assert arm_name("", {"partition": "by owner / state"}) == "by-owner-state"
    assert arm_name("", {}) == "arm"


def test_a_server_s_arm_has_its_rows_clients_mechanism_aggregator_and_attack():
    table = {"partition": "dirichlet", "partition_parameters": {"alpha": 0.5}}
    cell = cell_of("a", {**BASE, "server": table})
    assert isinstance(cell, FederatedCell)
    assert (cell.rows.dataset, cell.clients.count, cell.clients.partition) == ("digits", 4, "dirichlet")
    assert (cell.mechanism.path, cell.mechanism.parameters) == ("fedavg", {"clients_per_round": 4})
    chosen = cell_of("a", {**BASE, "server": {"mechanism": "fedavg", "parameters": {"clients_per_round": 2}}})
    assert chosen.mechanism.parameters == {"clients_per_round": 2}
    attack = {"class": FORGER, "share": 0.5, "parameters": {"factor": 2.0}}
    cell = cell_of("a", {**BASE, "server": {"aggregator": MEDIAN}, "attack": attack})
    assert cell.mechanism.parameters["path"] == MEDIAN
    assert cell.attackers.of == 0.5
    assert (cell.attackers.forgery.path, cell.attackers.poison) == (FORGER, None)


def test_own_rows_and_data_sets_of_the_scenarios():
    own = cell_of("a", {**SERVED, "data": {"source": "rows.csv", "target": "y"}})
    assert own.rows.dataset == DataSection("rows.csv", "y")
    peers = cell_of("a", {**BASE, "data": {"source": "breast-cancer"}})
    assert isinstance(peers, PeersCell)
    assert (peers.rows, peers.peers) == ("breast-cancer", 4)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"peers": None}, "peers is missing"),
        ({"peers": 0}, "peers = 0 is refused; allowed: a whole number from 1 to 10000"),
        ({"peers": "five"}, "peers = 'five' is refused"),
        ({"trian": {}}, "'trian' is not a known section (did you mean 'train'?)"),
        ({"train": {"round": 3}}, "'train.round' is not a known key (did you mean 'rounds'?)"),
        ({"train": {"rounds": 0}}, "train.rounds = 0 is refused"),
        ({"data": {}}, "data.source is missing; allowed: a file or folder of data, 'digits'"),
        ({"attack": {"class": FORGER}}, "[attack] has no effect without [server]"),
        ({"server": {"mechansim": "fedavg"}}, "'server.mechansim' is not a known key"),
        ({"server": {"partition": "mine"}}, "server.partition = 'mine' is refused; allowed: 'iid'"),
        ({"server": {}, "data": {}}, "data.source is missing"),
        ({"server": {}, "privacy": {"epsilon": 1}}, "privacy.epsilon has no effect with [server]"),
        ({"server": {"aggregator": MEDIAN, "mechanism": "fedavg"}}, "server.aggregator takes the place of"),
        ({"server": {"aggregator_parameters": {"a": 1}}}, "server.aggregator_parameters has no effect"),
        ({"server": {}, "attack": {}}, "attack.class is missing; allowed: 'package.module:Class'"),
        ({"server": {}, "attack": {"class": "no.where:Attack"}}, "'no.where:Attack' cannot be imported"),
        ({"server": {}, "attack": {"class": FORGER, "share": 2}}, "attack.share = 2 is refused"),
        ({"server": {}, "attack": {"class": FORGER, "parameters": {"x": 1}}}, f"attack '{FORGER}': "),
        ({"server": {}, "attack": {"class": "pathlib:Path"}}, "neither rows(...) nor weights(...)"),
    ],
)
def test_a_wrong_table_is_one_line(table, said):
    with refused(said):
        cell_of("a", {name: value for name, value in {**BASE, **table}.items() if value is not None})


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"privacy.epsilon": []}, "grid privacy.epsilon = [] is refused; allowed: a list of numbers, text"),
        ({"privacy.epsilon": 3}, "grid privacy.epsilon = 3 is refused"),
        ({"privacy.epsilon": [[1]]}, "grid privacy.epsilon = [[1]] is refused"),
        ({"epsilon": [1]}, "'epsilon' is no key of an arm; allowed: peers, and keys of model, data, train"),
        ({"task.name": ["a"]}, "'task.name' is no key of an arm"),
        ({"train.rounds.more": [1]}, "'train.rounds.more' is no key of an arm: rounds is no table"),
        ({"privacy.epsilon": [1, -1]}, "arm epsilon-1: privacy.epsilon = -1 is refused"),
        ({"train.rounds": list(range(200)), "train.epochs": list(range(200))}, "40000 arms; allowed: at"),
    ],
)
def test_a_wrong_grid_is_one_line(axes, said):
    with refused(said):
        grid({**BASE, "privacy": {"mechanism": "ldp"}}, axes)
