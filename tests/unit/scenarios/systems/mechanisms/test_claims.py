"""Scenario `mechanisms`: its arms, what each claim needs to hold, and what the report draws."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

from mechanisms.servers.server import Federation
from node.errors import ConfigError
from scenarios.catalogue import SCENARIOS
from scenarios.engines.room import LocalRoom
from scenarios.federated.cell import FederatedCell
from scenarios.federated.rounds import protection_facts
from scenarios.frame.report import Ended, render
from scenarios.frame.spec import Chart, judge
from scenarios.study.arms import OWN as OWN_FACTORS
from scenarios.study.arms import Arm
from scenarios.study.cells import Cell, Fact, Outcome
from scenarios.study.sweep import Sweep, arms_json
from scenarios.study.threads import one_thread
from scenarios.swarms.cells import SwarmCell
from scenarios.systems.mechanisms.arms import (
    ARMS,
    EXACT,
    FEWER,
    LINES,
    MAJORITY,
    PARTIES,
    ROW_NORM,
    STATED,
    by_proved,
    by_stated,
    keeps,
    own,
)
from scenarios.systems.mechanisms.arms import of as selection_of
from scenarios.systems.mechanisms.charts import charts, kept_in_words, protection_table, short, tables
from scenarios.systems.mechanisms.claims import CLAIMS, MECHANISMS, STUDY, headline
from scenarios.systems.mechanisms.kinds import LINES as KINDS

SECURE_SUM, SERVER_ONLY, MEDIAN, WEAK_DP = "secure-sum", "fedavg", "median", "weak-dp"
LDP, ALDP, ALDP_RAW, LINEAR, DP_FEDAVG = "ldp", "aldp", "aldp-raw", "aldp-linear", "dp-fedavg"
NBAFL, FEDERATEDSCOPE = "nbafl", "nbafl-federatedscope"
DP_SGD, ROW_NOISE, RPFL, LABEL_DP = "dp-sgd", "row-noise", "rpfl", "label-dp"

SEEDS = (0, 1, 2, 3)
SPREAD = (-0.004, 0.004, -0.002, 0.002)
BY_NAME = {one.arm: one.cell for one in ARMS}
FACTORS = {one.arm: one.factors for one in ARMS}
ROOM = LocalRoom(Path(), 1, lambda _number, _figure: None)


def at(mechanism: str, epsilon: float) -> str:
    return f"{mechanism}-{epsilon:g}"


def arms_of(mechanism: str) -> tuple[str, ...]:
    return tuple(at(mechanism, epsilon) for epsilon in FEWER.get(mechanism, STATED))


def of(mechanism: str, *figures: float) -> dict[str, float]:
    """A figure for each of its epsilons."""
    return dict(zip(arms_of(mechanism), figures, strict=True))


FIGURES: dict[str, float] = {
    SECURE_SUM: 0.95, SERVER_ONLY: 0.95, MEDIAN: 0.94, WEAK_DP: 0.93,
    **of(LDP, 0.10, 0.10, 0.12, 0.2, 0.35, 0.73, 0.89), **of(ALDP, 0.10, 0.10, 0.12, 0.2, 0.35, 0.7, 0.9),
    **of(ALDP_RAW, 0.10, 0.10, 0.12, 0.2, 0.35, 0.7, 0.9),
    **of(LINEAR, 0.10, 0.10, 0.10, 0.12, 0.25, 0.62, 0.94),
    **of(DP_FEDAVG, 0.10, 0.16, 0.4, 0.87, 0.9, 0.93, 0.94),
    **of(NBAFL, 0.10, 0.10, 0.2, 0.79, 0.94, 0.95, 0.95), **of(FEDERATEDSCOPE, 0.9, *[0.95] * 6),
    **of(DP_SGD, 0.38, 0.72, 0.88, 0.92), **of(ROW_NOISE, 0.10, 0.10, 0.18, 0.27, 0.83, 0.91, 0.93),
    **of(RPFL, *[0.945] * 7), **of(LABEL_DP, 0.56, 0.91, 0.948, 0.948),
}  # fmt: skip
"""Made up, near what was measured: with these every claim holds."""
LINEAR_TRUE = dict(zip(arms_of(LINEAR), (0.28, 0.91, 3.5, 13.0, 68.3, 410.0, 3744.0), strict=True))


def facts(cell: Cell) -> dict[str, Fact]:
    """As an engine has them; those of peers are made up."""
    if isinstance(cell, FederatedCell):
        mechanism = cell.mechanism.make(Federation((140,) * PARTIES, cell.rounds, (4096, 64, 640, 10)))
        return {**protection_facts(mechanism), **mechanism.figures}
    stated = cell.task.privacy.epsilon if cell.task.privacy.mechanism != "none" else None  # type: ignore[attr-defined]
    true = LINEAR_TRUE.get(cell.arm, stated)
    return {"epsilon": true, "stated": stated, "delta": 1e-5, "unit": "of peers", "protects": "a lot"}


FACTS: Mapping[str, Mapping[str, Fact]] = {arm: facts(cell) for arm, cell in BY_NAME.items()}


def made(
    changed: Mapping[str, float] | None = None,
    only: Callable[[str], bool] = lambda arm: True,
    told: Mapping[str, Mapping[str, Fact]] | None = None,
    more: Mapping[str, tuple[Cell, float]] | None = None,
) -> Sweep:
    """A sweep of made-up figures; changed arms vary with the seeds the other way, so differences do."""
    figures = {**FIGURES, **(changed or {})}
    outcomes = {}
    for arm in filter(only, BY_NAME):
        known = {**FACTS[arm], **(told or {}).get(arm, {})}
        outcomes[arm] = tuple(
            Outcome((0.1, figures[arm] + (-off if arm in (changed or {}) else off)), known, 2.0)
            for off in SPREAD
        )
    for arm, (cell, figure) in (more or {}).items():
        outcomes[arm] = tuple(Outcome((0.1, figure + off), facts(cell), 2.0) for off in SPREAD)
    mine = (Arm(cell, OWN_FACTORS) for cell, _ in (more or {}).values())
    return Sweep(STUDY, SEEDS, (*(one for one in ARMS if only(one.arm)), *mine), outcomes)


def named(*arms: str) -> Callable[[str], bool]:
    return lambda arm: arm in arms


def failing(sweep: Sweep) -> set[str]:
    """The claims that do not hold."""
    return {claim.name for claim in judge(CLAIMS, sweep) if not claim.verdict.holds}


# -- arms --------------------------------------------------------------------------------------------------


def test_it_is_in_the_catalogue() -> None:
    assert SCENARIOS["mechanisms"].load() is MECHANISMS


def test_every_arm_has_a_name_of_its_own_and_a_made_up_figure() -> None:
    assert len(BY_NAME) == len(ARMS)
    assert set(BY_NAME) == set(FIGURES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", arm) for arm in BY_NAME)


def test_every_line_is_in_words_and_asks_for_what_its_factors_say() -> None:
    assert set(KINDS) == set(LINES)
    assert len({kind.title for kind in KINDS.values()}) == len(LINES)
    for name in LINES:
        there = {arm: factors for arm, factors in FACTORS.items() if factors["mechanism"] == name}
        assert tuple(there) == arms_of(name)
        for arm, factors in there.items():
            cell, epsilon = BY_NAME[arm], factors["epsilon"]
            assert epsilon in STATED
            if isinstance(cell, SwarmCell):
                assert cell.task.privacy.epsilon == epsilon
            else:
                assert isinstance(cell, FederatedCell)
                assert cell.mechanism.parameters["epsilon"] == epsilon
    for name in (SECURE_SUM, SERVER_ONLY, MEDIAN, WEAK_DP):
        assert FACTORS[name] == {"mechanism": name}
    assert len({tuple(one.items()) for one in FACTORS.values()}) == len(ARMS)


def test_the_table_of_everything_has_the_factors() -> None:
    assert {"mechanism", "epsilon"} <= {*made(only=named("ldp-3", SECURE_SUM)).frame().column_names}


def test_peers_and_clients_are_as_many_and_train_alike() -> None:
    usual = BY_NAME[SECURE_SUM]
    assert isinstance(usual, SwarmCell)
    for cell in BY_NAME.values():
        if isinstance(cell, SwarmCell):
            assert (cell.peers, cell.task.train, cell.task.model) == (
                PARTIES,
                usual.task.train,
                usual.task.model,
            )
        else:
            assert isinstance(cell, FederatedCell)
            steady = cell.arm.startswith(("row-noise", "rpfl"))
            assert cell.train.grad_clip == (1.0 if steady else None)
            assert (
                cell.changed({"train": {"grad_clip": 1.0}}).train
                == usual.changed({"train": {"grad_clip": 1.0}}).task.train
            )
            assert (cell.clients.count, cell.clients.parameters["alpha"]) == (PARTIES, 0.5)


def test_peers_and_a_server_start_from_the_same_model_and_test_rows() -> None:
    """Untrained, both are as accurate: the same weights on the same rows."""
    still = {"train": {"learning_rate": 1e-12, "rounds": 1}}
    cells = [BY_NAME[arm].changed(still).seeded(5) for arm in (SECURE_SUM, SERVER_ONLY)]
    with one_thread():
        one, other = (cell.replay(ROOM).final for cell in cells)
    assert one == other


def test_no_row_is_above_the_norm_and_guessing_is_the_most_frequent_digit() -> None:
    dataset = ROOM.dataset("digits", 0)
    assert np.linalg.norm(dataset.train_x, axis=1).max() < ROW_NORM
    labels = np.concatenate([dataset.train_y, dataset.test_y])
    assert np.bincount(labels).max() / len(labels) == MAJORITY


@pytest.mark.parametrize("arm", [at(line, 10) for line in LINES if line != DP_SGD] + [MEDIAN, WEAK_DP])
def test_every_kind_of_arm_runs(arm: str) -> None:
    cell = BY_NAME[arm].lasting(2)
    cell.check(ROOM)
    with one_thread():
        outcome = cell.replay(ROOM)
    assert len(outcome.figures) == 2
    assert outcome.facts["protects"]
    exact = FACTORS[arm]["mechanism"] in EXACT
    assert (exact and outcome.facts["epsilon"] == pytest.approx(10)) or outcome.facts["epsilon"] != 10


def test_other_numbers_of_parties_and_rounds_go_to_both_kinds() -> None:
    for cell in BY_NAME.values():
        five = cell.among(5).lasting(3)
        assert five.rounds == 3
        if isinstance(five, FederatedCell):
            assert five.clients.count == 5
            assert five.mechanism.parameters.get("clients_per_round", 5) == 5
        else:
            assert isinstance(five, SwarmCell)
            assert five.peers == 5
    for arm in (SERVER_ONLY, "nbafl-10", "dp-fedavg-10", "label-dp-3", "rpfl-10", MEDIAN):
        BY_NAME[arm].among(5).lasting(3).check(ROOM)


def test_what_only_one_kind_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"privacy\.epsilon: this scenario does not have it"):
        BY_NAME[SERVER_ONLY].changed({"privacy": {"epsilon": 3.0}})
    other_model = BY_NAME["rpfl-10"].changed({"model": {"args": {"sizes": [64, 32, 10]}}})
    with pytest.raises(ConfigError, match="widths"):
        other_model.check(ROOM)


# -- a mechanism of one's own ------------------------------------------------------------------------------


def test_a_server_s_mechanism_and_a_node_s_are_told_apart() -> None:
    server = own("tests.own_mechanisms:Shrinking", {"clients_per_round": 10})
    assert isinstance(server, FederatedCell)
    assert (server.arm, server.clients) == ("own", BY_NAME[SERVER_ONLY].clients)  # type: ignore[attr-defined]
    assert server.among(4).mechanism.parameters == {"clients_per_round": 4}
    node = own("tests.own_mechanisms:Counting", {"epsilon": 4.0})
    assert isinstance(node, SwarmCell)
    assert (node.arm, node.peers, node.task.privacy.epsilon) == ("own", PARTIES, 4.0)


def test_names_of_the_registry_are_told_apart_too() -> None:
    server, node = own("scaffold", {"clients_per_round": 10}), own("ldp", {"epsilon": 4.0})
    assert isinstance(server, FederatedCell)
    assert server.mechanism.path == "scaffold"
    assert isinstance(node, SwarmCell)
    assert node.task.privacy.mechanism == "ldp"
    with pytest.raises(
        ConfigError, match=r"'fedsgd' is unknown; .* and no node's \(privacy.mechanism = 'fedsgd'"
    ):
        own("fedsgd", {})


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("tests.own_mechanisms:Raising", {}),
        ("tests.own_mechanisms:TakesNothing", {}),
        ("tests.own_mechanisms:Unfinished", {}),
        ("tests.own_mechanisms:Counting", {"colour": "red"}),
        ("tests.own_mechanisms:Shrinking", {"clients_per_round": 11}),
        ("tests.own_mechanisms:Nowhere", {}),
    ],
)
def test_what_is_neither_is_refused_in_one_line(path: str, parameters: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refusal:
        own(path, parameters)
    assert "\n" not in str(refusal.value)
    assert path.split(":")[1] in str(refusal.value)


# -- claims ------------------------------------------------------------------------------------------------


def test_all_claims_hold_where_the_figures_are_as_measured() -> None:
    judged = judge(CLAIMS, made())
    assert [claim.name for claim in judged] == [claim.name for claim in CLAIMS]
    assert failing(made()) == set()
    for claim in judged:
        assert claim.verdict.numbers
        assert all(isinstance(value, int | float | str) for value in claim.verdict.numbers.values())


BROKEN: dict[str, list[dict[str, float]]] = {
    "Secure aggregation": [{SECURE_SUM: 0.935}, {SECURE_SUM: 0.965}],
    "The larger epsilon": [
        {at(LDP, 300): 0.33},
        {at(DP_SGD, 10): 0.7},
        {at(LABEL_DP, 10): 0.89},
        dict.fromkeys(arms_of(ROW_NOISE), 0.9),
    ],
    "At a stated 10, dp-sgd": [{at(DP_SGD, 10): 0.61}, {at(LDP, 10): 0.39}],
    "label-dp at 3": [{at(LABEL_DP, 3): 0.89}],
    "For one record": [{at(ROW_NOISE, 1): 0.379}, {at(ROW_NOISE, 30): 0.93}],
    "For whole data sets": [{at(LDP, 10): 0.399}, {at(DP_FEDAVG, 300): 0.72}],
    "With ten parties": [
        {at(DP_FEDAVG, 10): 0.51},
        {at(ALDP, 3): 0.6},
        {at(LDP, 10): 0.55},
    ],
}


@pytest.mark.parametrize(
    ("words", "changed"), [(words, changed) for words, each in BROKEN.items() for changed in each]
)
def test_each_claim_can_fail(words: str, changed: dict[str, float]) -> None:
    assert any(name.startswith(words) for name in failing(made(changed)))


TOLD_OTHERWISE = [
    ("What exact", at(LDP, 10), 10.1),
    ("What exact", at(LABEL_DP, 3), 3.1),
    ("What exact", at(ROW_NOISE, 1000), None),
    ("What NbAFL", at(NBAFL, 1000), 999.0),
    ("What NbAFL", at(RPFL, 1), 1.0),
    ("What NbAFL", at(FEDERATEDSCOPE, 30), 30.0),
    ("linear-classic", at(LINEAR, 1), 2.0),
    ("linear-classic", at(LINEAR, 1000), 900.0),
    ("linear-classic", at(LINEAR, 30), 31.0),
]


@pytest.mark.parametrize(("words", "arm", "epsilon"), TOLD_OTHERWISE)
def test_each_claim_about_epsilon_can_fail(words: str, arm: str, epsilon: float | None) -> None:
    names = failing(made(told={arm: {"epsilon": epsilon}}))
    assert len(names) == 1
    assert min(names).startswith(words)


def test_a_linear_classic_that_never_keeps_what_it_states_is_not_what_is_claimed() -> None:
    told: dict[str, dict[str, Fact]] = {at(LINEAR, stated): {"epsilon": 2.0 * stated} for stated in STATED}
    assert [name[:14] for name in failing(made(told=told))] == ["linear-classic"]


def test_a_claim_is_judged_only_where_its_arms_were_run() -> None:
    assert judge(CLAIMS, made(only=named(SERVER_ONLY, MEDIAN))) == ()
    assert judge(CLAIMS, made(only=named(at(LINEAR, 1), at(LINEAR, 100), at(ALDP_RAW, 10)))) == ()
    few = made(only=named(at(NBAFL, 1), at(DP_FEDAVG, 10)))
    assert [claim.name[:16] for claim in judge(CLAIMS, few)] == [
        "What exact mecha",
        "What NbAFL and R",
        "With ten parties",
    ]
    assert judge(CLAIMS, made(only=named(at(LDP, 30), at(DP_SGD, 3))))[0].name.startswith("What exact")


def test_the_short_form_judges_most_of_the_claims() -> None:
    quick = made(only=lambda arm: any(fnmatchcase(arm, pattern) for pattern in STUDY.quick.arms))
    assert all(any(fnmatchcase(arm, pattern) for arm in BY_NAME) for pattern in STUDY.quick.arms)
    assert len(judge(CLAIMS, quick)) == len(CLAIMS) - 1
    assert failing(quick) == set()


# -- what was run ------------------------------------------------------------------------------------------


def test_lines_have_what_was_run_by_what_it_was_asked_for() -> None:
    some = made(only=named("ldp-3", "ldp-300", "nbafl-federatedscope-3", SERVER_ONLY))
    assert by_stated(some, LDP) == {"ldp-3": 3, "ldp-300": 300}
    assert by_proved(some, FEDERATEDSCOPE) == {}
    first = [some.first(selection_of(name, epsilon)) for name, epsilon in ((LDP, 3), (LDP, 10), (ALDP, 3))]
    assert first == ["ldp-3", None, None]
    assert keeps(some, "ldp-3")
    assert not keeps(some, "nbafl-federatedscope-3")
    assert not keeps(some, SERVER_ONLY)


# -- charts, tables, words ---------------------------------------------------------------------------------


def drawn(key: str, sweep: Sweep) -> Chart:
    return next(chart for chart in charts(sweep) if chart.key == key)


def trace(chart: Chart, name: str) -> Mapping[str, object]:
    return next(trace for trace in chart.traces if trace.get("name") == name)


def test_all_mechanisms_stand_on_one_axis_and_the_untrue_points_are_hollow() -> None:
    chart = drawn("stated", made())
    names = [line["name"] for line in chart.traces]
    assert names == [
        *(kind.title for kind in KINDS.values()),
        *("secure sum, no server", "fedavg, with a server", "guessing"),
    ]
    ldp, covered, raw, linear, nbafl = (
        trace(chart, name)
        for name in ("ldp", "aldp", "aldp, raw norms", "aldp, linear-classic", "nbafl, the paper")
    )
    assert ldp["x"] == [*STATED]
    assert ldp["y"] == pytest.approx([FIGURES[arm] for arm in arms_of(LDP)])
    ink = ldp["line"]["color"]  # type: ignore[index]
    assert ldp["marker"]["color"] == [ink] * 7  # type: ignore[index]
    assert covered["marker"]["color"] == [ink] * 7  # type: ignore[index]
    for untrue in (raw, linear, nbafl):
        assert untrue["marker"]["color"] == ["var(--card)"] * 7  # type: ignore[index]
    assert (ldp["line"]["dash"], nbafl["line"]["dash"]) == ("solid", "dash")  # type: ignore[index]
    record = trace(chart, "dp-sgd")
    assert record["line"]["color"] != ink  # type: ignore[index]
    assert record["legendgroup"] != ldp["legendgroup"]
    assert chart.layout["xaxis"]["tickvals"] == [*STATED]
    assert chart.under == protection_table(made())


def test_units_of_privacy_have_a_plot_each_over_what_is_true() -> None:
    data_sets, records, labels = (drawn(key, made()) for key in ("data-sets", "records", "labels"))
    assert [line["name"] for line in data_sets.traces] == [
        *("ldp", "aldp", "dp-fedavg", "nbafl, the paper", "no noise"),
    ]
    assert [line["name"] for line in records.traces] == [
        "dp-sgd",
        "row-noise",
        "rpfl, its theorem",
        "no noise",
    ]
    assert [line["name"] for line in labels.traces] == ["label-dp", "no noise"]
    assert trace(data_sets, "aldp")["x"] == [*STATED]
    assert min(trace(records, "rpfl, its theorem")["x"]) > 1000  # type: ignore[call-overload]


def test_a_stated_ten_stands_beside_what_it_truly_is() -> None:
    chart = drawn("truth", made())
    whole, record = trace(chart, "a whole data set"), trace(chart, "one record")
    assert whole["y"] == [
        *("ldp", "aldp", "aldp, raw norms", "aldp, linear-classic", "dp-fedavg", "nbafl, the paper")
    ]
    texts = [text.strip() for text in whole["text"]]
    assert texts[:5] == ["10", "10", "none", "none", "10"]
    assert whole["x"][5] > 1e4  # type: ignore[index]
    assert whole["x"][2] > whole["x"][5]  # type: ignore[index]
    assert record["text"][0].strip() == "10"  # type: ignore[index]
    nothing = trace(chart, "nothing provable")
    assert [text.strip() for text in nothing["text"]] == ["none"]
    assert nothing["x"][0] == whole["x"][2] > max(record["x"])  # type: ignore[index,call-overload]
    assert nothing["marker"]["color"] == ["var(--card)"]  # type: ignore[index]


def test_only_what_was_run_is_drawn() -> None:
    assert [chart.key for chart in charts(made())] == ["stated", "truth", "data-sets", "records", "labels"]
    assert charts(made(only=named(SECURE_SUM, SERVER_ONLY))) == ()
    one = made(only=named("dp-sgd-3"))
    assert [chart.key for chart in charts(one)] == ["stated", "records"]
    assert [line["name"] for line in drawn("records", one).traces] == ["dp-sgd"]
    assert len(protection_table(one).rows) == 1


def test_the_table_says_what_is_protected_and_whether_the_stated_is_true() -> None:
    rows = {row[0]: row for row in protection_table(made()).rows}
    assert len(rows) == len(LINES) + 4
    assert rows["dp-sgd"][1:3] == ("peer-to-peer", "one record")
    assert rows["dp-sgd"][5:7] == ("yes", "88.0% ± 0.2")
    uncovered = "no: no epsilon covers the radius, which the noise shows; given it, "
    assert rows["aldp"][5] == "yes"
    assert rows["aldp, raw norms"][5] == f"{uncovered}yes"
    assert rows["aldp, linear-classic"][5] == f"{uncovered}not always: 300 is 410"
    assert rows["nbafl, FederatedScope"][5] == "no: no epsilon is proved"
    assert rows["rpfl, its theorem"][5].startswith("no: 10 is ")
    assert rows["none: secure sum alone"][2] == "only the update"
    assert rows["coordinate median"][5] == "states none"
    assert kept_in_words(made(only=named("aldp-linear-1000")), LINEAR).endswith("no: 1000 is 3,740")
    assert [table.title for table in tables(made())] == ["Arms"]


def test_a_mechanism_of_one_s_own_is_a_point_where_it_states_an_epsilon_and_else_a_level() -> None:
    quiet = own("tests.own_mechanisms:Shrinking", {"clients_per_round": 10})
    level = trace(drawn("stated", made(more={"own": (quiet, 0.7)})), "own mechanism")
    assert (level["mode"], level["y"]) == ("lines", pytest.approx([0.7, 0.7]))
    node = own("tests.own_mechanisms:Counting", {"epsilon": 4.0})
    sweep = made(more={"own": (node, 0.7)})
    point = trace(drawn("stated", sweep), "own mechanism")
    assert (point["x"], point["y"]) == ([4.0], pytest.approx([0.7]))
    assert protection_table(sweep).rows[-1][0] == "own"
    assert protection_table(sweep).rows[-1][5] == "yes"
    assert protection_table(made(more={"own": (quiet, 0.7)})).rows[-1][5] == "states none"


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (3.456, "3.46"),
        (10.0, "10"),
        (68.27, "68.3"),
        (131_040.0, "131,000"),
        (3.4e9, "3.4e+09"),
        (np.nan, "none"),
    ],
)
def test_epsilons_for_people(epsilon: float, words: str) -> None:
    assert short(epsilon) == words


def test_the_headline_is_one_epsilon_in_four_meanings() -> None:
    assert headline(made()) == (
        "95.0% without noise. At a stated epsilon of 10: 94.8% for one label, 88.0% for one record, 40.0% "
        "for a whole data set with a trusted server, 12.0% for one without trust."
    )
    assert headline(made(only=named("ldp-1"))) == "1 arms, 4 seeds each."


def test_results_and_report_can_be_written() -> None:
    sweep = made()
    assert json.loads(json.dumps(arms_json(sweep)))["ldp-10"]["seeds"][0]["stated"] == 10
    ended = Ended("mechanisms", STUDY.source, headline(sweep), "", {}, "", {}, "", 1.0)
    page = render(ended, charts(sweep), tables(sweep), judge(CLAIMS, sweep))
    first = page.index("id='chart-stated'")
    assert first < page.index("What is protected, and from whom") < page.index("id='chart-truth'")
    sheet = page[page.index("<style>") : page.index("</style>")]
    assert all(f"{name}:" in sheet for name in set(re.findall(r"var\((--[\w-]+)\)", page.split("<main>")[1])))
