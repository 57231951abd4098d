"""What is special about scenario `nbafl`: its arms, their noise, and the document's table."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.data import sources
from scenarios.systems.nbafl.arms import ARMS, CELLS, MNIST_EPSILON, WAYS, own
from scenarios.systems.nbafl.charts import DOCUMENT, NOISE, document_table
from scenarios.systems.nbafl.claims import proved_by_steps
from tests.unit.scenarios.rooms import replayed
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["nbafl"]
FACTS = SYSTEM.facts
BY_NAME = {arm.arm: arm.cell for arm in ARMS}
FEDERATEDSCOPE, PAPER = WAYS
LEAST, MOST = CELLS[0], CELLS[-1]
NO_NOISE = "no-noise"
TEST, TEST_SILENT = "federatedscope-test", "federatedscope-test-sizes-unknown"


def table_arm(way: str, epsilon: float, constant: float) -> str:
    """A cell of the table."""
    return f"{way}-eps{epsilon:g}-c{constant:g}"


def mnist_arm(epsilon: float | None, clients: int = 50, rounds: int = 25) -> str:
    """An arm on MNIST; None: without noise."""
    varied = f"-{clients}clients" if clients != 50 else ""
    noise = "no-noise" if epsilon is None else f"eps{epsilon:g}"
    return f"mnist{varied}-{noise}" + (f"-{rounds}rounds" if rounds != 25 else "")


def test_the_nine_cells_are_the_document_s_and_mnist_the_paper_s():
    assert set(CELLS) == set(DOCUMENT)
    ratios = [constant / epsilon for epsilon, constant in CELLS]
    assert ratios == pytest.approx([0.01, 0.02, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.3])
    percent = [DOCUMENT[cell] for cell in CELLS]
    assert sorted(percent) == [11.73, 24.82, 41.71, 54.85, 67.98, 74.80, 80.39, 80.58, 80.58]
    assert percent[-1] == 11.73
    usual = BY_NAME[mnist_arm(MNIST_EPSILON)]
    assert (usual.rounds, usual.clients.count, usual.train.learning_rate) == (25, 50, 0.002)
    assert usual.model.args == {"sizes": [784, 256, 10]}
    assert usual.mechanism.parameters["delta"] == 0.01
    for cell in (arm.cell for arm in ARMS if arm.factors["data"] == "mnist"):
        assert cell.mechanism.parameters["clients_per_round"] == cell.clients.count
        assert cell.rows.most == 200 * cell.clients.count


@pytest.mark.parametrize("cell", CELLS)
def test_upload_noise_of_a_cell_is_the_table_s(cell):
    """w_clip T c / (m epsilon) = 0.1 * 300 / 200 c / epsilon there, 0.1 * 60 / 40 c / epsilon here."""
    epsilon, constant = cell
    told = FACTS[table_arm(FEDERATEDSCOPE, epsilon, constant)]
    assert told["largest upload noise std"] == pytest.approx(0.15 * constant / epsilon)
    assert told["epsilon"] is None
    paper = FACTS[table_arm(PAPER, epsilon, constant)]
    assert paper["upload noise std"] == pytest.approx(2 * 3.0 * constant / (40 * epsilon))
    assert paper["delta"] == pytest.approx(1.25 * math.exp(-(constant**2) / 2))
    assert paper["stated"] == epsilon


def test_the_noise_of_federatedscope_is_by_hand_what_it_says_and_clipping_proves_an_epsilon():
    by_hand = 2 * 0.1 * 2 * math.sqrt(20**2 - 5**2 * 10) / (480 * 10 * 50)
    assert FACTS[TEST]["download noise std"] == pytest.approx(by_hand)
    assert FACTS[TEST_SILENT]["download noise std"] == 0
    assert (BY_NAME[TEST].rounds, BY_NAME[TEST].clients.count) == (20, 10)
    assert BY_NAME[TEST].train.learning_rate == 0.001
    parameters = {"epsilon": 50.0, "constant": 2.0, "clip": 0.1, "proximal": 0.1, "clients_per_round": 5}
    assert parameters.items() <= BY_NAME[TEST].mechanism.parameters.items()
    sweep = SYSTEM.sweep()
    found = proved_by_steps(sweep, table_arm(FEDERATEDSCOPE, 10.0, 3.0))
    assert found == pytest.approx(5560, rel=1e-3)
    assert proved_by_steps(sweep, TEST) is None, "its gradients are not clipped"


def test_arms_of_the_table_and_of_one_s_own_differ_in_their_mechanism_only():
    usual = BY_NAME[NO_NOISE]
    for cell in (BY_NAME[table_arm(kind, *cell)] for kind in WAYS for cell in CELLS):
        assert replace(cell, arm=NO_NOISE, mechanism=usual.mechanism) == usual
        assert (cell.mechanism.parameters["proximal"], usual.train.grad_clip) == (0.01, 5.0)
    cell = own("tests.own_mechanisms:Shrinking", {"clients_per_round": 3})
    assert cell.mechanism.parameters == {"clients_per_round": 3}
    assert replace(cell, arm=NO_NOISE, mechanism=BY_NAME[NO_NOISE].mechanism) == BY_NAME[NO_NOISE]


def test_the_document_s_table_has_a_row_a_cell_and_that_of_noise_either_way():
    table = document_table(SYSTEM.sweep())
    assert len(table.rows) == len(CELLS)
    assert table.rows[0][:7] == ("100", "1", "0.758", "0.01", "80.58 %", "66.0% ± 0.2", "74.0% ± 0.2")
    assert table.rows[-1][4] == "11.73 %"
    assert float(table.rows[-1][-1]) > 10
    some = document_table(SYSTEM.sweep(only=(table_arm(FEDERATEDSCOPE, *MOST),)))
    assert [row[-2:] for row in some.rows] == [("", "")]
    rows = {row[0]: row for row in NOISE.table(SYSTEM.sweep()).rows}
    assert rows[table_arm(FEDERATEDSCOPE, *MOST)][1:4] == ("0.3", "0.045", "0")
    assert rows[table_arm(PAPER, *LEAST)][2] == "0.0015"
    assert NO_NOISE not in rows


@pytest.mark.skipif(sources.VARIABLE not in os.environ, reason="needs FEMNIST digits and MNIST")
@pytest.mark.parametrize("arm", [TEST, mnist_arm(20.0, 10)])
def test_on_real_data_it_starts(arm):
    outcome = replayed(BY_NAME[arm].lasting(2), Path(os.environ[sources.VARIABLE]))
    assert all(0 < figure < 1 for figure in outcome.figures)
