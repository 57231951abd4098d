"""What is special about scenario `aldp`: its arms, and a run of it from the command line."""

import pytest

from node.system.errors import ConfigError
from scenarios.systems.aldp.arms import ARMS, EXACT, FIXED, LINEAR, NONE, own
from tests.unit.scenarios.systems.made_up import SYSTEMS

RING, SEED = "shares-ring", "shares-seed"
exact, linear, record = "exact-{}".format, "linear-{}".format, "dp-sgd-{}".format


def capped(radius: str, cap: float) -> str:
    return exact(3000) if (radius, cap) == ("raw", 1) else f"{radius}-cap{cap:g}"


def test_the_radius_is_what_the_factor_says_and_the_usual_arm_of_a_selection_comes_first():
    for arm in ARMS:
        if "radius" in arm.factors:
            assert (arm.cell.task.privacy.window_source or "fixed") == arm.factors["radius"]
    whole = SYSTEMS["aldp"].sweep()
    assert [whole.first(where) for where in (NONE, EXACT, LINEAR, FIXED)] == [
        *("none", exact(1), linear(1), capped("fixed", 1))
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
