"""What is special about scenario `label-dp`: what its arms state and spend, and what stands in for what."""

import math
from dataclasses import asdict
from pathlib import Path

import pytest

from node.system.errors import ConfigError
from scenarios.data.criteo import FILES
from scenarios.systems.label_dp.arms import ARMS, EPSILONS, PLAIN, entropy_of_flips, keeping, own
from scenarios.systems.label_dp.charts import LOSSES, READINGS
from scenarios.systems.label_dp.claims import CLAIMS, STUDY
from scenarios.vertical.cell import protection_of
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["label-dp"]
CELLS = {arm.arm: arm.cell for arm in ARMS}


def test_arms_differ_in_what_protects_only_as_the_factors_say():
    plain = asdict(PLAIN)
    for cell in CELLS.values():
        changed = {name for name, value in asdict(cell).items() if value != plain[name]}
        assert changed <= {"arm", "labels", "outputs"}
        assert cell.labels is None or cell.outputs is None
    for arm in ARMS:
        labels, outputs, mechanism = arm.cell.labels, arm.cell.outputs, arm.factors["mechanism"]
        assert (labels is not None) == (mechanism == "label-dp") == ("flips" in arm.factors)
        assert (outputs is not None) == (mechanism in ("signs", "noisy-signs"))
        assert labels is None or labels.redrawn == (arm.factors["flips"] == "afresh")


def test_learning_is_the_original_s_and_what_stands_in_for_what_is_what_is_run():
    descent = PLAIN.network.descent
    assert (descent.learning_rate, descent.adam_epsilon, descent.l2) == (3.5e-4, 1e-8, 8e-5)
    assert asdict(descent.ftrl) == {"learning_rate": 0.05, "l1": 1e-8, "l2": 1e-8, "accumulator": 1.0}
    assert (PLAIN.sizes.embedding, PLAIN.train.batch_size) == (80, 256)
    said = " ".join(dict(STUDY.stands_in).values())
    assert f"{PLAIN.rounds} epochs of {math.ceil(7200 / PLAIN.train.batch_size)} steps" in said
    assert f"batches of {PLAIN.train.batch_size}" in said
    assert "64, 32, 16 and 8" in said
    assert PLAIN.sizes.hidden == (64, 32, 16, 8)
    assert STUDY.data_sets == ("criteo",)
    assert Path(FILES[0]).parent.name == "criteo"


@pytest.mark.parametrize(
    ("arm", "stated", "true"),
    [("once-0.5", 0.5, 0.5), ("once-5", 5, 5), ("redrawn-0", 0, 0), ("redrawn-1", 1, 12), ("signs-5", 5, 60)],
)
def test_what_arms_state_and_truly_spend(arm: str, stated: float, true: float) -> None:
    facts = protection_of(CELLS[arm])
    assert (facts["stated"], facts["epsilon"]) == (stated, true)


def test_a_label_mechanism_of_one_s_own_gets_the_usual_parties() -> None:
    cell = own("tests.own_labels:Halving", {"share": 0.5})
    assert (cell.arm, cell.train, cell.sizes) == ("own", PLAIN.train, PLAIN.sizes)
    assert protection_of(cell)["epsilon"] is None
    with pytest.raises(ConfigError, match=r"'fedadam' is no import path; allowed: 'package\.module:Class'"):
        protection_of(own("fedadam", {}))


def test_coin_flips_drawn_afresh_may_be_off_by_a_margin_and_those_drawn_once_not() -> None:
    """The margin is .058 here."""
    off, far = ({"once-0": at, "redrawn-0": at} for at in (0.45, 0.44))
    found = [[one.judge(SYSTEM.sweep(change, spread=10)) for one in CLAIMS[:2]] for change in (off, far)]
    assert [[verdict.holds for verdict in pair if verdict] for pair in found] == [
        [False, True],
        [False, False],
    ]


def test_plots_have_what_is_allowed_and_flips_keep_and_hide():
    once, _, allowed = READINGS.chart(SYSTEM.sweep()).traces
    assert allowed["y"][10] == pytest.approx(keeping(1.0))
    assert list(once["y"]) == pytest.approx([keeping(each) for each in EPSILONS], abs=1e-6)
    assert "release of its own" in LOSSES.chart(SYSTEM.sweep()).caption
    assert keeping(1.0) == pytest.approx(math.e / (1 + math.e))
    assert keeping(0.0) == 0.5
    assert entropy_of_flips(1.0) == pytest.approx(0.582, abs=5e-4)
    assert entropy_of_flips(0.0) == pytest.approx(math.log(2))
    once, afresh = (protection_of(CELLS[arm].lasting(30))["epsilon"] for arm in ("once-1", "redrawn-1"))
    assert (once, afresh) == (1, 30)
