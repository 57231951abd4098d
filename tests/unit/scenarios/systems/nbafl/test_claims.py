"""Scenario `nbafl`: its arms, what each claim needs to hold, and what the report draws."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from mechanisms.servers.server import Federation
from scenarios.catalogue import SCENARIOS
from scenarios.federated.cell import FederatedCell
from scenarios.federated.rounds import protection_facts
from scenarios.frame.report import Ended, render
from scenarios.frame.spec import Chart, judge
from scenarios.study.arms import Arm
from scenarios.study.cells import Outcome
from scenarios.study.sweep import Sweep, arms_json
from scenarios.systems.nbafl.arms import (
    ARMS,
    CELLS,
    MNIST_CLIENTS,
    MNIST_EPSILON,
    MNIST_EPSILONS,
    WAYS,
    mnist,
    own,
    writers,
)
from scenarios.systems.nbafl.charts import DOCUMENT, NOISE, charts, document_table, tables
from scenarios.systems.nbafl.claims import CLAIMS, NBAFL, STUDY, headline, proved_by_steps
from tests.unit.scenarios.systems.nbafl.names import (
    CLIP_ONLY,
    NO_NOISE,
    TEST,
    TEST_SILENT,
    mnist_arm,
    table_arm,
)

SEEDS = (0, 1, 2, 3)
SPREAD = (-0.004, 0.004, -0.002, 0.002)
BY_NAME = {arm.arm: arm.cell for arm in ARMS}
FEDERATEDSCOPE, PAPER = WAYS
LEAST, MOST = CELLS[0], CELLS[-1]
QUICK = {arm for arm in BY_NAME if any(fnmatchcase(arm, pattern) for pattern in STUDY.quick.arms)}


def in_table(kind: str, figures: tuple[float, ...]) -> dict[str, float]:
    """The nine cells, from little noise to much."""
    return {table_arm(kind, *cell): figure for cell, figure in zip(CELLS, figures, strict=True)}


FIGURES: dict[str, float] = {
    NO_NOISE: 0.74, CLIP_ONLY: 0.66, TEST: 0.2, TEST_SILENT: 0.2,
    **in_table(FEDERATEDSCOPE, (0.66, 0.65, 0.65, 0.65, 0.65, 0.64, 0.63, 0.55, 0.35)),
    **in_table(PAPER, (0.74, 0.74, 0.74, 0.73, 0.72, 0.70, 0.60, 0.30, 0.11)),
    mnist_arm(None): 0.84,
    **{mnist_arm(eps): x for eps, x in zip(MNIST_EPSILONS, (0.13, 0.46, 0.73, 0.82, 0.83), strict=True)},
    mnist_arm(None, 10): 0.84, mnist_arm(None, 25): 0.84,
    mnist_arm(MNIST_EPSILON, 10): 0.09, mnist_arm(MNIST_EPSILON, 25): 0.43,
    **{mnist_arm(MNIST_EPSILON, rounds=number): x for number, x in {5: 0.69, 10: 0.75, 40: 0.4}.items()},
}  # fmt: skip
"""Made up, near what was measured: with these every claim holds."""


def federation(cell: FederatedCell) -> Federation:
    """What the cell's mechanism is made for: of FEMNIST there are 4,800 training rows, more or less."""
    rows = (cell.rows.most or 4800) // cell.clients.count
    return Federation((rows,) * cell.clients.count, cell.rounds, (23_466,))


def facts(cell: FederatedCell) -> dict[str, object]:
    """As an engine has them."""
    mechanism = cell.mechanism.make(federation(cell))
    return {**protection_facts(mechanism), **mechanism.figures}


FACTS: Mapping[str, Mapping[str, object]] = {arm.arm: facts(arm.cell) for arm in ARMS}


def made(
    changed: Mapping[str, float] | None = None,
    only: tuple[str, ...] | None = None,
    told: Mapping[str, Mapping[str, object]] | None = None,
    cells: tuple[Arm, ...] = ARMS,
) -> Sweep:
    """A sweep of made-up figures; changed arms vary with the seeds the other way, so differences do."""
    figures = {**FIGURES, **(changed or {})}
    arms = tuple(cell for cell in cells if only is None or cell.arm in only)
    outcomes = {}
    for cell in arms:
        known = {**FACTS[cell.arm], **(told or {}).get(cell.arm, {})}
        outcomes[cell.arm] = tuple(
            Outcome((0.1, figures[cell.arm] + (-off if cell.arm in (changed or {}) else off)), known, 2.0)
            for off in SPREAD
        )
    return Sweep(STUDY, SEEDS, arms, outcomes)


def failing(sweep: Sweep) -> set[str]:
    """The claims that do not hold."""
    return {claim.name for claim in judge(CLAIMS, sweep) if not claim.verdict.holds}


# -- arms --------------------------------------------------------------------------------------------------


def test_it_is_in_the_catalogue():
    assert SCENARIOS["nbafl"].load() is NBAFL


def test_every_arm_has_a_name_of_its_own_and_a_made_up_figure():
    assert len(BY_NAME) == len(ARMS)
    assert set(BY_NAME) == set(FIGURES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", arm) for arm in BY_NAME)


def test_the_arms_are_what_their_factors_say():
    for arm in ARMS:
        parameters, factors = arm.cell.mechanism.parameters, arm.factors
        assert arm.cell.rows.dataset == factors["data"]
        for name in ("epsilon", "constant"):
            assert parameters.get(name, factors.get(name)) == factors.get(name) or name not in factors
        assert arm.cell.clients.count == factors.get("clients", arm.cell.clients.count)
        assert arm.cell.rounds == factors.get("rounds", arm.cell.rounds)
    named = {arm.arm: arm.factors for arm in ARMS}
    for kind, where in ((way, writers(way)) for way in (FEDERATEDSCOPE, PAPER)):
        for epsilon, constant in CELLS:
            cell = {"epsilon": epsilon, "constant": constant, "c / epsilon": constant / epsilon}
            assert named[table_arm(kind, epsilon, constant)] == {**where, **cell}
    for epsilon in MNIST_EPSILONS:
        usual = {"epsilon": epsilon, "clients": MNIST_CLIENTS, "rounds": 25}
        assert named[mnist_arm(epsilon)] == {**mnist("paper"), **usual}
    assert {"data", "way", "epsilon", "constant", "clients"} <= {*made().frame().column_names}


def test_the_nine_cells_are_the_document_s_in_order_of_noise():
    assert set(CELLS) == set(DOCUMENT)
    ratios = [constant / epsilon for epsilon, constant in CELLS]
    assert ratios == pytest.approx([0.01, 0.02, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.3])
    percent = [DOCUMENT[cell] for cell in CELLS]
    assert sorted(percent) == [11.73, 24.82, 41.71, 54.85, 67.98, 74.80, 80.39, 80.58, 80.58]
    assert percent[-1] == 11.73


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


def test_clipped_gradients_prove_an_epsilon_where_nothing_else_does():
    """At (10, .01), where c = 3: four steps of at most .015 x 5 move an upload by .3."""
    sweep = made()
    found = proved_by_steps(sweep, table_arm(FEDERATEDSCOPE, 10.0, 3.0))
    assert found == pytest.approx(5560, rel=1e-3)
    assert proved_by_steps(sweep, TEST) is None, "its gradients are not clipped"


def test_download_noise_of_federatedscope_s_test_is_by_hand_what_it_says():
    """T = 20 > 5 sqrt 10: 2 w_clip c sqrt(T^2 - L^2 N) / (m N epsilon), m = 480."""
    by_hand = 2 * 0.1 * 2 * math.sqrt(20**2 - 5**2 * 10) / (480 * 10 * 50)
    assert FACTS[TEST]["download noise std"] == pytest.approx(by_hand)
    assert FACTS[TEST_SILENT]["download noise std"] == 0
    assert (BY_NAME[TEST].rounds, BY_NAME[TEST].clients.count) == (20, 10)
    assert BY_NAME[TEST].train.learning_rate == 0.001
    parameters = {"epsilon": 50.0, "constant": 2.0, "clip": 0.1, "proximal": 0.1, "clients_per_round": 5}
    assert parameters.items() <= BY_NAME[TEST].mechanism.parameters.items()


def test_arms_of_the_table_differ_in_their_mechanism_only():
    usual = BY_NAME[NO_NOISE]
    for cell in (BY_NAME[table_arm(kind, *cell)] for kind in WAYS for cell in CELLS):
        assert replace(cell, arm=NO_NOISE, mechanism=usual.mechanism) == usual
        assert (cell.mechanism.parameters["proximal"], usual.train.grad_clip) == (0.01, 5.0)


def test_mnist_is_the_paper_s():
    usual = BY_NAME[mnist_arm(MNIST_EPSILON)]
    assert (usual.rounds, usual.clients.count, usual.train.learning_rate) == (25, 50, 0.002)
    assert usual.model.args == {"sizes": [784, 256, 10]}
    assert usual.mechanism.parameters["delta"] == 0.01
    for cell in (arm.cell for arm in ARMS if arm.factors["data"] == "mnist"):
        assert cell.mechanism.parameters["clients_per_round"] == cell.clients.count
        assert cell.rows.most == 200 * cell.clients.count


def test_a_mechanism_of_one_s_own_gets_the_table_s_clients():
    cell = own("tests.own_mechanisms:Shrinking", {"clients_per_round": 3})
    assert cell.mechanism.parameters == {"clients_per_round": 3}
    assert replace(cell, arm=NO_NOISE, mechanism=BY_NAME[NO_NOISE].mechanism) == BY_NAME[NO_NOISE]


# -- claims ------------------------------------------------------------------------------------------------


def test_all_claims_hold_where_the_figures_are_as_measured():
    judged = judge(CLAIMS, made())
    assert [claim.name for claim in judged] == [claim.name for claim in CLAIMS]
    assert failing(made()) == set()
    for claim in judged:
        assert claim.verdict.numbers
        assert all(isinstance(value, int | float | str) for value in claim.verdict.numbers.values())


BROKEN = {
    "Accuracy falls in c / epsilon, as FederatedScope": [
        {table_arm(FEDERATEDSCOPE, 10.0, 2.0): 0.68},
        in_table(FEDERATEDSCOPE, (0.65,) * 9),
    ],
    "Accuracy falls in c / epsilon, as the paper": [
        {table_arm(PAPER, 10.0, 3.0): 0.32},
        {table_arm(PAPER, *LEAST): 0.69},
    ],
    "Cells (50, c = 1)": [
        {table_arm(FEDERATEDSCOPE, 50.0, 1.0): 0.67},
        {table_arm(PAPER, 100.0, 2.0): 0.72},
    ],
    "MNIST: the smaller epsilon": [
        {mnist_arm(10.0): 0.75},
        {mnist_arm(epsilon): 0.8 for epsilon in MNIST_EPSILONS},
    ],
    "MNIST: at one epsilon more clients": [
        {mnist_arm(MNIST_EPSILON, 25): 0.76},
        {mnist_arm(MNIST_EPSILON, number): 0.73 for number in (10, 25)},
    ],
    "MNIST: at one epsilon there is a best": [
        {mnist_arm(MNIST_EPSILON, rounds=5): 0.76},
        {mnist_arm(MNIST_EPSILON, rounds=40): 0.76},
        {mnist_arm(MNIST_EPSILON, rounds=5): 0.747},
    ],
}


@pytest.mark.parametrize(
    ("words", "changed"), [(words, changed) for words, each in BROKEN.items() for changed in each]
)
def test_each_claim_can_fail(words, changed):
    assert any(name.startswith(words) for name in failing(made(changed)))


TOLD_OTHERWISE = {
    "Download noise fires": [(TEST, {"download noise std": 0.0}),
                             (table_arm(FEDERATEDSCOPE, *MOST), {"download noise std": 1e-9})],
    "No stated epsilon": [(table_arm(FEDERATEDSCOPE, *LEAST), {"epsilon": 100.0}), (TEST, {"epsilon": 50.0}),
                          (table_arm(PAPER, *MOST), {"epsilon": 10.0}),
                          (table_arm(FEDERATEDSCOPE, *MOST), {"least upload noise std": 0.6}),
                          (mnist_arm(MNIST_EPSILON, 10), {"epsilon": 19.0})],
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "arm", "told"), [(words, *each) for words, all_of in TOLD_OTHERWISE.items() for each in all_of]
)
def test_each_claim_about_noise_and_epsilon_can_fail(words, arm, told):
    names = failing(made(told={arm: told}))
    assert len(names) == 1
    assert min(names).startswith(words)


def test_a_difference_within_a_margin_breaks_nothing():
    """The margin is .0116 here: 3.182 (t at .975 for 3 degrees of freedom) times .00365."""
    within = {table_arm(FEDERATEDSCOPE, 50.0, 1.0): 0.661, mnist_arm(100.0): 0.809}
    assert failing(made(within)) == set()
    assert len(failing(made({mnist_arm(100.0): 0.808}))) == 1


def test_a_claim_is_judged_only_where_its_arms_were_run():
    assert judge(CLAIMS, made(only=(NO_NOISE, CLIP_ONLY, TEST_SILENT))) == ()
    assert judge(CLAIMS, made(only=(TEST, mnist_arm(None)))) == ()
    assert judge(CLAIMS, made(only=(table_arm(PAPER, 100.0, 1.0),))) == (), "one cell falls nowhere"
    two = tuple(table_arm(PAPER, *cell) for cell in (LEAST, MOST))
    assert [claim.name[-40:] for claim in judge(CLAIMS, made(only=two))] == [CLAIMS[1].name[-40:]]
    one_kind = tuple(table_arm(FEDERATEDSCOPE, *cell) for cell in ((50.0, 1.0), (100.0, 2.0)))
    assert any(claim.name.startswith("Cells") for claim in judge(CLAIMS, made(only=one_kind)))


def test_the_short_form_judges_half_of_the_claims():
    assert {NO_NOISE, TEST, *(table_arm(kind, *cell) for kind in WAYS for cell in (LEAST, MOST))} == QUICK
    judged = judge(CLAIMS, made(only=tuple(QUICK)))
    assert len(judged) == 4
    assert all(claim.verdict.holds for claim in judged)


def test_with_as_many_clients_or_rounds_in_all_arms_nothing_is_said_of_their_number():
    for cells in (tuple(cell.among(60) for cell in ARMS), tuple(cell.lasting(7) for cell in ARMS)):
        names = [claim.name for claim in judge(CLAIMS, made(cells=cells))]
        keys = {chart.key for chart in charts(made(cells=cells))}
        alike = "clients" if cells[0].cell.clients.count == 60 else "rounds"
        words = {"clients": "more clients", "rounds": "best number of rounds"}[alike]
        assert not [name for name in names if words in name]
        assert f"mnist-{alike}" not in keys
        assert len(names) == len(CLAIMS) - 1


# -- charts, tables, words -----------------------------------------------------------------------------------


def drawn(key: str, sweep: Sweep) -> Chart:
    return next(chart for chart in charts(sweep) if chart.key == key)


def test_the_table_is_drawn_beside_the_document_s():
    chart = drawn("ratio", made())
    assert [trace["name"] for trace in chart.traces] == [
        *("FederatedScope, here", "the paper, here", "FederatedScope, the document"),
        *("no noise", "weights clipped, no noise"),
    ]
    here, paper, document, *levels = chart.traces
    assert here["x"] == paper["x"] == document["x"] == [constant / epsilon for epsilon, constant in CELLS]
    assert document["y"] == pytest.approx([DOCUMENT[cell] / 100 for cell in CELLS])
    assert paper["y"] == pytest.approx([FIGURES[table_arm(PAPER, *cell)] for cell in CELLS])
    assert [level["y"] for level in levels] == [pytest.approx([0.74] * 2), pytest.approx([0.66] * 2)]
    assert chart.layout["xaxis"]["type"] == "log"


def test_true_epsilons_lie_above_the_line_where_the_stated_are_true():
    *lines, diagonal = drawn("epsilon", made()).traces
    assert [line["name"] for line in lines] == ["table's cells", "MNIST"]
    assert diagonal["x"] == diagonal["y"] == [5.0, 10.0, 20.0, 50.0, 100.0]
    for line in lines:
        assert all(true > stated for stated, true in zip(line["x"], line["y"], strict=True))


def test_rounds_are_drawn_for_some_cells_only():
    names = [trace["name"] for trace in drawn("rounds", made()).traces]
    assert names == ["no noise", *(f"c / epsilon {ratio}" for ratio in ("0.01", "0.1", "0.2", "0.3"))]


def test_only_what_was_run_is_drawn():
    every = ["ratio", "epsilon", "mnist-epsilon", "mnist-clients", "mnist-rounds", "rounds"]
    assert [chart.key for chart in charts(made())] == every
    assert [chart.key for chart in charts(made(only=(NO_NOISE,)))] == ["rounds"]
    only = (mnist_arm(20.0), mnist_arm(5.0))
    assert [chart.key for chart in charts(made(only=only))] == ["epsilon", "mnist-epsilon"]
    assert [trace["name"] for trace in drawn("mnist-epsilon", made(only=only)).traces] == ["the paper"]


def test_more_clients_stand_beside_what_they_give_without_noise():
    noised, quiet = drawn("mnist-clients", made()).traces
    assert noised["x"] == quiet["x"] == [10, 25, MNIST_CLIENTS]
    assert (noised["name"], quiet["name"]) == ("epsilon 20 stated", "no noise")
    assert drawn("mnist-rounds", made()).traces[0]["x"] == [5, 10, 25, 40]


def test_the_document_s_table_has_a_row_a_cell():
    table = document_table(made())
    assert len(table.rows) == len(CELLS)
    assert table.rows[0][:7] == ("100", "1", "0.758", "0.01", "80.58 %", "66.0% ± 0.2", "74.0% ± 0.2")
    assert table.rows[-1][4] == "11.73 %"
    assert float(table.rows[-1][-1]) > 10
    some = document_table(made(only=(table_arm(FEDERATEDSCOPE, *MOST),)))
    assert [row[-2:] for row in some.rows] == [("", "")]


def test_the_table_of_noise_has_the_noise_of_either_way():
    rows = {row[0]: row for row in NOISE.table(made()).rows}
    assert rows[table_arm(FEDERATEDSCOPE, *MOST)][1:4] == ("0.3", "0.045", "0")
    assert rows[table_arm(PAPER, *LEAST)][2] == "0.0015"
    assert NO_NOISE not in rows


def test_tables_are_whole():
    for sweep in (made(), made(only=tuple(QUICK)), made(only=(NO_NOISE,))):
        for table in tables(sweep):
            assert table.rows
            assert {len(row) for row in table.rows} == {len(table.headings)}


def test_the_headline_has_the_figures():
    assert headline(made()) == (
        "As FederatedScope has it, accuracy falls from 66.0% at c / epsilon 0.01 to 35.0% at 0.3. As the "
        "paper has it, accuracy falls from 74.0% at c / epsilon 0.01 to 11.0% at 0.3. Without noise it is "
        "74.0%. On MNIST the paper's noise at a stated 20 proves 2.1e+07."
    )
    assert headline(made(only=(TEST,))) == "1 arms, 4 seeds each."


def test_the_report_is_whole():
    sweep = made()
    ended = Ended("nbafl", STUDY.source, headline(sweep), "", {}, "again", {}, "now", 1.0)
    page = render(ended, charts(sweep), tables(sweep), judge(CLAIMS, sweep))
    assert all(f"chart-{chart.key}" in page for chart in charts(sweep))
    json.dumps(arms_json(sweep), allow_nan=False)
