"""Real nodes on rows that they are handed: what they get, their figures, and what a step costs."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from node.runtime.record.figures import Record
from node.storage.records import Traffic
from scenarios.swarms.cells import lowest_figures
from scenarios.swarms.dealt import ACCURACY, AUC, FACTOR, FAILED, HONEST, STEP_BYTES, STEP_S, parts_of
from scenarios.swarms.dealt_nodes import dealt_to, node_facts, recorded
from scenarios.swarms.nodes import PeerRun
from scenarios.swarms.results import SwarmResults
from tests.dealt_cells import LOCAL, peers, room


def test_a_node_is_handed_its_part_and_the_common_test_rows() -> None:
    cell, dataset = peers(), room().dataset("digits", 0)
    dealt = dealt_to(cell, dataset)
    for rows, part in zip(dealt, parts_of(dataset, 5, 0), strict=True):
        np.testing.assert_array_equal(rows.train_x, dataset.train_x[part])
        np.testing.assert_array_equal(rows.train_y, dataset.train_y[part])
        np.testing.assert_array_equal(rows.test_x, dataset.test_x)


def a_round(number: int, accuracy: float, auc: float | None = 0.8, **more: Any) -> Record:
    phases = {"train": Traffic(0.3), "sums": Traffic(0.6, 9000)}
    values: dict[str, Any] = {"outcome": "aggregated", "steps": 3, "bytes_sent": 9000, **more}
    return Record(round=number, accuracy=accuracy, phases=phases, metrics={"auc": auc}, **values)


def test_figures_of_real_nodes_are_the_lowest_of_what_is_measured(results: SwarmResults) -> None:
    summary = results.peers[0].summary
    one = PeerRun(0, (a_round(1, 0.5, 0.7), a_round(2, 0.6, None)), summary)
    other = PeerRun(1, (a_round(1, 0.4, 0.9),), summary)
    assert lowest_figures((one, other), 2, partial(recorded, measure=ACCURACY)) == (0.4, 0.6)
    assert lowest_figures((one, other), 2, partial(recorded, measure=AUC)) == (0.7, 0.7)
    assert lowest_figures((PeerRun(0, (), summary),), 2, partial(recorded, measure=ACCURACY)) == (0.0, 0.0)


def test_the_cost_of_steps_is_a_median_without_the_first_round(results: SwarmResults) -> None:
    summary = results.peers[0].summary
    rounds = (a_round(1, 0.5, bytes_sent=90_000), a_round(2, 0.6, steps_failed=2), a_round(3, 0.6, steps=0))
    facts = node_facts(peers(), (PeerRun(0, rounds, summary),))
    assert facts == {HONEST: 2, FACTOR: 5 / 3, STEP_S: pytest.approx(0.3), STEP_BYTES: 3000, FAILED: 2}
    few = node_facts(peers(), (PeerRun(0, rounds[:1], summary),))
    assert (few[STEP_S], few[STEP_BYTES]) == (None, None)
    assert node_facts(peers(LOCAL), (PeerRun(0, rounds, summary),)) == {}
