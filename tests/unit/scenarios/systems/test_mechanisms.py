"""What is special about scenario `mechanisms`: both kinds of arms, one's own, and what is drawn."""

from collections.abc import Mapping

import numpy as np
import pytest

from node.system.errors import ConfigError
from scenarios.federated.cell import FederatedCell
from scenarios.frame.spec import Chart
from scenarios.study.arms import OWN as OWN_FACTORS
from scenarios.study.arms import Arm
from scenarios.study.sweep import Sweep
from scenarios.swarms.cells import SwarmCell
from scenarios.systems.mechanisms import arms
from scenarios.systems.mechanisms.charts import charts, kept_in_words, protection_table, short
from scenarios.systems.mechanisms.kinds import LINES as KINDS
from tests.unit.scenarios.rooms import replayed, room
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["mechanisms"]
SECURE_SUM, SERVER_ONLY, MEDIAN, WEAK_DP = "secure-sum", "fedavg", "median", "weak-dp"
BY_NAME = {one.arm: one.cell for one in arms.ARMS}
FACTORS = {one.arm: one.factors for one in arms.ARMS}
ROOM = room()


def test_every_line_is_in_words_and_has_its_epsilons() -> None:
    assert set(KINDS) == set(arms.LINES)
    assert len({kind.title for kind in KINDS.values()}) == len(arms.LINES)
    for name in arms.LINES:
        there = {arm: factors for arm, factors in FACTORS.items() if factors["mechanism"] == name}
        assert tuple(there) == tuple(f"{name}-{epsilon:g}" for epsilon in arms.FEWER.get(name, arms.STATED))
    for name in (SECURE_SUM, SERVER_ONLY, MEDIAN, WEAK_DP):
        assert FACTORS[name] == {"mechanism": name}


def test_peers_and_clients_are_as_many_and_train_alike() -> None:
    usual = BY_NAME[SECURE_SUM]
    for cell in BY_NAME.values():
        if isinstance(cell, SwarmCell):
            assert (cell.peers, cell.task.train, cell.task.model) == (
                arms.PARTIES,
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
            assert (cell.clients.count, cell.clients.parameters["alpha"]) == (arms.PARTIES, 0.5)


def test_peers_and_a_server_start_from_the_same_model_and_rows_below_the_norm():
    still = {"train": {"learning_rate": 1e-12, "rounds": 1}}
    cells = [BY_NAME[arm].changed(still).seeded(5) for arm in (SECURE_SUM, SERVER_ONLY)]
    one, other = (replayed(cell).final for cell in cells)
    assert one == other
    dataset = ROOM.dataset("digits", 0)
    assert np.linalg.norm(dataset.train_x, axis=1).max() < arms.ROW_NORM
    labels = np.concatenate([dataset.train_y, dataset.test_y])
    assert np.bincount(labels).max() / len(labels) == arms.MAJORITY


@pytest.mark.parametrize("arm", [f"{line}-10" for line in arms.LINES if line != "dp-sgd"] + [MEDIAN, WEAK_DP])
def test_every_kind_of_arm_runs(arm: str) -> None:
    cell = BY_NAME[arm].lasting(2)
    cell.check(ROOM)
    outcome = replayed(cell)
    assert len(outcome.figures) == 2
    assert outcome.facts["protects"]
    exact = FACTORS[arm]["mechanism"] in arms.EXACT
    assert (exact and outcome.facts["epsilon"] == pytest.approx(10)) or outcome.facts["epsilon"] != 10


def test_what_only_one_kind_has_is_refused_and_peers_and_rounds_go_to_both():
    for cell in BY_NAME.values():
        five = cell.among(5).lasting(3)
        assert five.rounds == 3
        if isinstance(five, FederatedCell):
            assert five.clients.count == 5
            assert five.mechanism.parameters.get("clients_per_round", 5) == 5
        else:
            assert five.peers == 5
    for arm in (SERVER_ONLY, "nbafl-10", "dp-fedavg-10", "label-dp-3", "rpfl-10", MEDIAN):
        BY_NAME[arm].among(5).lasting(3).check(ROOM)
    with pytest.raises(ConfigError, match=r"privacy\.epsilon: this scenario does not have it"):
        BY_NAME[SERVER_ONLY].changed({"privacy": {"epsilon": 3.0}})
    other_model = BY_NAME["rpfl-10"].changed({"model": {"args": {"sizes": [64, 32, 10]}}})
    with pytest.raises(ConfigError, match="widths"):
        other_model.check(ROOM)


def test_a_server_s_mechanism_and_a_node_s_are_told_apart_by_path_and_name():
    server = arms.own("tests.own_mechanisms:Shrinking", {"clients_per_round": 10})
    assert isinstance(server, FederatedCell)
    assert (server.arm, server.clients) == ("own", BY_NAME[SERVER_ONLY].clients)
    assert server.among(4).mechanism.parameters == {"clients_per_round": 4}
    node = arms.own("tests.own_mechanisms:Counting", {"epsilon": 4.0})
    assert isinstance(node, SwarmCell)
    assert (node.arm, node.peers, node.task.privacy.epsilon) == ("own", arms.PARTIES, 4.0)
    server, node = arms.own("scaffold", {"clients_per_round": 10}), arms.own("ldp", {"epsilon": 4.0})
    assert isinstance(server, FederatedCell)
    assert server.mechanism.path == "scaffold"
    assert isinstance(node, SwarmCell)
    assert node.task.privacy.mechanism == "ldp"
    with pytest.raises(
        ConfigError, match=r"'fedsgd' is unknown; .* and no node's \(privacy.mechanism = 'fedsgd'"
    ):
        arms.own("fedsgd", {})


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
        arms.own(path, parameters)
    assert "\n" not in str(refusal.value)
    assert path.split(":")[1] in str(refusal.value)


def test_lines_have_what_was_run_by_what_it_was_asked_for() -> None:
    some = SYSTEM.sweep(only=("ldp-3", "ldp-300", "nbafl-federatedscope-3", SERVER_ONLY))
    assert arms.by_stated(some, "ldp") == {"ldp-3": 3, "ldp-300": 300}
    assert arms.by_proved(some, "nbafl-federatedscope") == {}
    first = [some.first(arms.of(name, epsilon)) for name, epsilon in (("ldp", 3), ("ldp", 10), ("aldp", 3))]
    assert first == ["ldp-3", None, None]
    assert arms.keeps(some, "ldp-3")
    assert not arms.keeps(some, "nbafl-federatedscope-3")
    assert not arms.keeps(some, SERVER_ONLY)


def drawn(key: str, sweep: Sweep) -> Chart:
    return next(chart for chart in charts(sweep) if chart.key == key)


def trace(chart: Chart, name: str) -> Mapping[str, object]:
    return next(trace for trace in chart.traces if trace.get("name") == name)


def test_all_mechanisms_stand_on_one_axis_and_the_untrue_points_are_hollow() -> None:
    chart = drawn("stated", SYSTEM.sweep())
    ldp, covered, raw, linear, nbafl = (
        trace(chart, name)
        for name in ("ldp", "aldp", "aldp, raw norms", "aldp, linear-classic", "nbafl, the paper")
    )
    ink = ldp["line"]["color"]
    assert ldp["marker"]["color"] == [ink] * 7
    assert covered["marker"]["color"] == [ink] * 7
    for untrue in (raw, linear, nbafl):
        assert untrue["marker"]["color"] == ["var(--card)"] * 7
    assert (ldp["line"]["dash"], nbafl["line"]["dash"]) == ("solid", "dash")
    record = trace(chart, "dp-sgd")
    assert record["line"]["color"] != ink
    assert record["legendgroup"] != ldp["legendgroup"]
    assert chart.layout["xaxis"]["tickvals"] == [*arms.STATED]
    assert chart.under == protection_table(SYSTEM.sweep())


def test_a_stated_ten_stands_beside_what_it_truly_is() -> None:
    chart = drawn("truth", SYSTEM.sweep())
    whole, record = trace(chart, "a whole data set"), trace(chart, "one record")
    texts = [text.strip() for text in whole["text"]]
    assert texts[:5] == ["10", "10", "none", "none", "10"]
    assert whole["x"][5] > 1e4
    assert whole["x"][2] > whole["x"][5]
    assert record["text"][0].strip() == "10"
    nothing = trace(chart, "nothing provable")
    assert [text.strip() for text in nothing["text"]] == ["none"]
    assert nothing["x"][0] == whole["x"][2] > max(record["x"])
    assert nothing["marker"]["color"] == ["var(--card)"]


def test_the_table_says_what_is_protected_and_whether_the_stated_is_true() -> None:
    words = {3.456: "3.46", 10.0: "10", 68.27: "68.3", 131_040.0: "131,000", 3.4e9: "3.4e+09", np.nan: "none"}
    assert [short(epsilon) for epsilon in words] == [*words.values()]
    rows = {row[0]: row for row in protection_table(SYSTEM.sweep()).rows}
    assert len(rows) == len(arms.LINES) + 4
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
    assert kept_in_words(SYSTEM.sweep(only=("aldp-linear-1000",)), "aldp-linear").endswith(
        "no: 1000 is 3,740"
    )


def test_a_mechanism_of_one_s_own_is_a_point_where_it_states_an_epsilon_and_else_a_level() -> None:
    quiet = arms.own("tests.own_mechanisms:Shrinking", {"clients_per_round": 10})
    level = trace(drawn("stated", SYSTEM.sweep(more=[(Arm(quiet, OWN_FACTORS), 0.7)])), "own mechanism")
    assert (level["mode"], level["y"]) == ("lines", pytest.approx([0.7, 0.7]))
    node = arms.own("tests.own_mechanisms:Counting", {"epsilon": 4.0})
    sweep = SYSTEM.sweep(more=[(Arm(node, OWN_FACTORS), 0.7)])
    point = trace(drawn("stated", sweep), "own mechanism")
    assert (point["x"], point["y"]) == ([4.0], pytest.approx([0.7]))
    assert protection_table(sweep).rows[-1][0] == "own"
    assert protection_table(sweep).rows[-1][5] == "yes"
    assert protection_table(SYSTEM.sweep(more=[(Arm(quiet, OWN_FACTORS), 0.7)])).rows[-1][5] == "states none"
