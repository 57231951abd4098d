"""What is special about scenario `aldp`: its arms, and a run of it from the command line."""

import json
from pathlib import Path

import pytest

from node.errors import ConfigError
from scenarios.__main__ import main
from scenarios.catalogue import SCENARIOS
from scenarios.systems.aldp.arms import ARMS, EXACT, FIXED, LINEAR, NONE, own
from tests.unit.scenarios.systems.made_up import SYSTEMS

RING, SEED = "shares-ring", "shares-seed"
exact, linear, record = "exact-{}".format, "linear-{}".format, "dp-sgd-{}".format


def sized(kind: str, peers: int) -> str:
    name = "none" if kind == "none" else exact(300)
    return name if peers == 10 else f"{name}-n{peers}"


def capped(radius: str, cap: float) -> str:
    return exact(3000) if (radius, cap) == ("raw", 1) else f"{radius}-cap{cap:g}"


def floats(power: int) -> str:
    return f"shares-float-1e{power}"


def test_the_radius_is_of_what_the_factor_says() -> None:
    for arm in ARMS:
        if "radius" in arm.factors:
            assert (arm.cell.task.privacy.window_source or "fixed") == arm.factors["radius"]  # type: ignore[attr-defined]


def test_the_usual_arm_of_a_selection_comes_first() -> None:
    whole = SYSTEMS["aldp"].sweep()
    assert [whole.first(where) for where in (NONE, EXACT, LINEAR, FIXED)] == [
        *("none", exact(1), linear(1), capped("fixed", 1)),
    ]


def test_an_arm_of_ones_own_takes_keys_of_privacy() -> None:
    mine = own("tests.own_mechanisms:Counting", {"epsilon": 3, "mechanism": "none"})
    assert (mine.arm, mine.peers, mine.task.privacy.epsilon) == ("own", 10, 3.0)
    assert mine.task.privacy.mechanism == "tests.own_mechanisms:Counting"
    assert own("ldp", {"epsilon": 3}).task.privacy.mechanism == "ldp"
    for path, parameters, said in (
        ("nowhere:Class", {}, "nowhere:Class"),
        ("fedadam", {}, r"privacy\.mechanism = 'fedadam' is refused"),
        ("tests.own_mechanisms:Counting", {"lambda": 3}, "privacy.lambda"),
    ):
        with pytest.raises(ConfigError, match=said):
            own(path, parameters)


def test_a_run_ends_with_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = "scenario.arms=none,linear-5,shares-float-1e2,shares-ring"
    small = ("model.args.sizes=[64,8,10]", "train.epochs=1", "train.batch_size=64")
    sets = [text for override in (chosen, *small) for text in ("--set", override)]
    line = ["run", "aldp", "--rounds", "2", "--peers", "3", "--set", "scenario.seeds=2", "--jobs", "1", *sets]
    assert main([*line, "--out", str(tmp_path / "out")]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert set(result["arms"]) == {"none", "linear-5", "shares-float-1e2", "shares-ring"}
    ran = result["arms"]["linear-5"]["seeds"][1]
    assert (ran["seed"], ran["stated"], len(ran["figures"])) == (1, 5.0, 2)
    assert result["arms"]["linear-5"]["factors"] == {**LINEAR, "epsilon": 5, "clipping_radius": 1, "peers": 3}
    assert 0 < result["arms"]["shares-float-1e2"]["figure"] < 1e-4
    assert "Errors of shares (not accuracies)" in capsys.readouterr().out


def test_the_command_line_has_it() -> None:
    assert SCENARIOS["aldp"].name == "aldp"
    assert SCENARIOS["aldp"].load().engines == ("inline", "processes", "ray")
