"""Facts and series of swarms: bytes by the formulas of docs/protocol.md, epsilon by round, peers."""

from dataclasses import replace

import pytest

from node.runtime.record.figures import Record
from node.task.load import load_task
from node.task.sections import AggregationSection
from scenarios.study.client_accuracy import SPREAD, TENTH, WORST
from scenarios.study.costs import DOWN, EPSILON, MEASURED, TRAFFIC, UP, epsilon_after
from scenarios.study.skew import CLIENTS, DISTANCE, MOST
from scenarios.swarms.cells import SwarmCell
from scenarios.swarms.lying import Lie, LyingSwarmCell
from scenarios.swarms.nodes import PeerRun
from scenarios.swarms.replay import datasets_of
from scenarios.swarms.reported import measured_facts, measured_series, peer_facts
from scenarios.swarms.traffic import sum_bytes
from tests import dealt_cells
from tests.unit.node.observe.test_lines import SUMMARY
from tests.unit.scenarios.rooms import replayed

SECTION = AggregationSection()
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", "train.rounds=3")
D = 64 * 8 + 8 + 8 * 10 + 10


def swarm(*overrides: str) -> SwarmCell:
    return SwarmCell("arm", load_task("digits", (*SMALL, *overrides)), 5)


@pytest.mark.parametrize(
    ("changes", "dimension", "members", "expected"),
    [
        ({}, 1000, 5, 4 * 1001 * 4),  # everybody adds up; a word counts the members
        ({}, 999_999, 10, 8e6 * 9 / 10 + 0.375e6 * 9 / 10),
        ({}, 999_999, 20, 8e6 * 19 / 20 + 0.5e6 * 19 / 20),
        ({"bits": 16}, 1000, 5, 2 * 1002 * 4),
        ({"bits": 16}, 999_998, 10, 4e6 * 9 / 10 + 0.375e6 * 9 / 10),
        ({"bits": 16}, 1000, 3, (4000 + 32) * 2),
        ({}, 1000, 3, (4000 + 32) * 2),
        ({"protocol": "additive"}, 1000, 5, (4000 + 32) * 4),
        ({"protocol": "additive", "shares": "ring"}, 1000, 5, 8000 * 4),
        ({"shares": "float"}, 1000, 3, 8000 * 2),
        ({}, 1000, 1, 0),
    ],
)
def test_the_bytes_of_a_sum(changes: dict, dimension: int, members: int, expected: float) -> None:
    assert sum_bytes(replace(SECTION, **changes), dimension, members) == pytest.approx(expected)


def test_a_private_swarm_tells_of_its_peers_and_spends_epsilon_until_its_budget_is_gone() -> None:
    cell = swarm("privacy.mechanism=ldp", "privacy.epsilon=50")
    outcome = replayed(cell)
    each = sum_bytes(SECTION, D, 5)
    assert (outcome.facts[UP], outcome.facts[DOWN], outcome.facts[MEASURED]) == (each, each, False)
    assert outcome.series[TRAFFIC] == (5 * each,) * 3
    first, second, third = outcome.series[EPSILON]
    assert 0 < first < second < third == outcome.facts["epsilon"]
    assert epsilon_after(outcome, 2) == second
    assert outcome.facts[CLIENTS] == 5
    assert 0 < outcome.facts[DISTANCE] < 1
    assert 0 <= outcome.facts[WORST] <= outcome.facts[TENTH] <= 1
    assert outcome.facts[SPREAD] > 0


def test_without_privacy_there_is_no_epsilon_groups_send_less_and_a_weight_is_a_word_more():
    plain = replace(swarm(), peers=9)
    lying = LyingSwarmCell(plain.arm, plain.task, plain.peers, Lie(1 / 9), 3)
    one, grouped = replayed(plain), replayed(lying)
    assert EPSILON not in one.series
    assert grouped.facts[UP] == sum_bytes(SECTION, D, 3) < one.facts[UP] == sum_bytes(SECTION, D, 9)
    weighted = swarm("aggregation.weighting=samples", "aggregation.sample_cap=100")
    assert replayed(weighted).facts[UP] == sum_bytes(SECTION, D + 1, 5)


def test_steps_are_a_sum_each_a_server_has_no_clients_and_numbers_have_sizes_alone():
    steps, server = replayed(dealt_cells.peers()), replayed(dealt_cells.server())
    assert steps.facts[UP] == 3 * sum_bytes(SECTION, 610, 5)
    assert len(steps.series[EPSILON]) == 2
    assert steps.facts[CLIENTS] == 5
    assert UP not in server.facts
    assert CLIENTS not in server.facts
    rows = datasets_of(swarm().task, 5)
    facts = peer_facts([replace(one, classes=None) for one in rows], {})
    assert facts[CLIENTS] == 5
    assert facts[MOST] == max(len(one.train_y) for one in rows)
    assert DISTANCE not in facts


def entry(number: int, sent: int, epsilon: float | None) -> Record:
    return Record(round=number, epsilon=epsilon, bytes_sent=sent, bytes_received=sent + 4)


def test_real_nodes_figures_are_what_they_counted() -> None:
    first = PeerRun(0, (entry(1, 100, 1.0), entry(2, 200, 2.0)), SUMMARY)
    late = PeerRun(1, (entry(2, 300, 2.5),), SUMMARY)
    assert measured_facts([first, late]) == {UP: 200.0, DOWN: 204.0, MEASURED: True}
    assert measured_series([first, late], 3) == {TRAFFIC: (100, 500, 0), EPSILON: (1.0, 2.5, 2.5)}
    bare = PeerRun(0, (entry(1, 100, None),), SUMMARY)
    assert measured_series([bare], 1) == {TRAFFIC: (100.0,)}
