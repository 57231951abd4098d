"""What is special about scenario `attacks`: its arms, what can not be asked for, and its pictures."""

from itertools import pairwise

import pytest

from node.system.errors import ConfigError
from scenarios.frame.spec import Request
from scenarios.inference.inversion import InversionCell
from scenarios.inference.property import PropertyCell, counting_auc
from scenarios.runs.request import study_run
from scenarios.systems.attacks.arms import ARMS, own
from scenarios.systems.attacks.charts import MEMBERS_SHOWN, PICTURED, Pictures
from scenarios.systems.attacks.claims import STUDY
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["attacks"]
BY_NAME = {arm.arm: arm.cell for arm in ARMS}


def test_arms_and_their_training_are_what_they_are_named_for():
    three, node, noised = (BY_NAME[f"inversion-{of}"] for of in ("sum3", "node100-sum3", "epsilon8"))
    assert (three.updates, three.rows, three.train.epochs, three.train.batch_size) == (3, 1, 1, 1)
    assert (node.updates, node.rows, node.train.epochs, node.train.batch_size) == (3, 100, 2, 16)
    assert (noised.updates, noised.privacy.mechanism, noised.privacy.epsilon) == (1, "ldp", 8)
    assert BY_NAME["membership-epsilon1"].privacy.mechanism == "dp-sgd"
    assert {cell.privacy.delta for cell in BY_NAME.values()} == {1e-5}
    assert {cell.rounds for cell in BY_NAME.values()} == {1}
    for arm in ARMS:
        assert arm.factors["attack"] == arm.cell.describe()["kind"]
        if isinstance(arm.cell, InversionCell):
            assert arm.factors["training"] == ("one step" if arm.cell.train.epochs == 1 else "as nodes")


def test_one_s_own_mechanism_is_attacked_by_inversion_and_only_adult_needs_a_file(tmp_path):
    cell = own("tests.own_mechanisms:Counting", {"epsilon": 2.0})
    assert (cell.arm, cell.updates, cell.rows) == ("own", 1, 1)
    assert (cell.privacy.mechanism, cell.privacy.epsilon) == ("tests.own_mechanisms:Counting", 2.0)
    assert own("ldp", {"epsilon": 2.0}).privacy.mechanism == "ldp"
    with pytest.raises(ConfigError, match=r"privacy\.mechanism = 'fedadam' is refused"):
        own("fedadam", {})
    chosen = ("scenario.arms=inversion-bare,membership-none",)
    assert len(study_run(STUDY, Request(data_dir=tmp_path, overrides=chosen)).arms) == 2
    with pytest.raises(ConfigError, match=r"property-bare: data set adult: .*adult\.data\.gz"):
        study_run(STUDY, Request(data_dir=tmp_path, overrides=("scenario.arms=property-bare",)))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(rounds=3), "--rounds 3: attacks are on one round"),
        (Request(peers=3), "--peers 3: each arm has its own number of updates"),
        (Request(overrides=("train.epochs=3",)), r"--set train\.epochs: each arm has its own"),
        (Request(overrides=("scenario.arms=nothing",)), "'nothing' is no arm of attacks"),
    ],
)
def test_what_can_not_be_asked_for_is_one_line(request_: Request, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        study_run(STUDY, request_)
    assert "\n" not in str(raised.value)


def test_pictures_stand_in_a_grid() -> None:
    chart = Pictures().chart(SYSTEM.sweep())
    columns = 1 + len(PICTURED) - 1
    assert len(chart.traces) == 3 * columns
    assert chart.traces[0]["z"] == [[0.5] * 8] * 8
    assert chart.traces[1]["z"] == [[0.25] * 8] * 8
    assert [note["text"] for note in chart.layout["annotations"]][:3] == ["true", "bare", "sum<br>of 3"]
    for number, trace in enumerate(chart.traces[1:], start=2):
        assert (trace["xaxis"], trace["yaxis"]) == (f"x{number}", f"y{number}")
        assert chart.layout[f"yaxis{number}"]["scaleanchor"] == f"x{number}"
    domains = [chart.layout[f"xaxis{number}"]["domain"] for number in range(2, columns + 1)]
    assert all(one[1] < other[0] for one, other in pairwise(domains))
    assert domains[-1][1] == pytest.approx(1.0)
    below, above = chart.layout[f"yaxis{columns + 1}"]["domain"], chart.layout["yaxis2"]["domain"]
    assert 0 <= below[0] < below[1] < above[0] < above[1] < 1


def test_bars_of_membership_begin_at_chance() -> None:
    chart = MEMBERS_SHOWN.chart(SYSTEM.sweep())
    assert [*chart.layout["xaxis"]["categoryarray"]] == ["no noise", "ε = 8", "ε = 1"]
    assert chart.traces[2]["base"] == 0.5


def test_the_usual_arm_of_a_selection_is_pictured_and_a_count_is_what_it_is() -> None:
    whole = SYSTEM.sweep()
    assert [whole.first(where) for where in PICTURED.values()] == [
        *(
            "inversion-bare",
            "inversion-sum3",
            "inversion-sum100",
            "inversion-node100",
            "inversion-epsilon10000",
        ),
        *("inversion-epsilon100", None),
    ]
    for arm, cell in BY_NAME.items():
        if isinstance(cell, PropertyCell):
            assert SYSTEM.facts[arm]["counting auc"] == pytest.approx(counting_auc(cell.updates))
