"""A mechanism by import path is checked as by its name: what it is decides, not what it is called."""

from dataclasses import replace

import pytest

from mechanisms.mechanism import SharedSetting
from mechanisms.updates.distributed import distributed_dp
from mechanisms.updates.local import LocalDP, aldp
from mechanisms.updates.record import dp_sgd
from node.runtime.privacy.budget import make_mechanism
from node.system.errors import ConfigError
from node.task.load import load_task

SHAPES = [("layers.0.weight", (8, 4)), ("layers.0.bias", (4,))]
RAW, AGGREGATE, PUBLIC = (
    "privacy.window_source=raw",
    "privacy.window_source=aggregate",
    "privacy.public_radius=true",
)
CLASSIC = "privacy.calibration=linear-classic"
WEIGHTS = ("train.loss=cross-entropy", "train.loss_args={weight=[1.0,2.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0]}")
PATHS = {
    "ldp": "mechanisms.updates.local:ldp",
    "aldp": "mechanisms.updates.local:aldp",
    "dp-sgd": "mechanisms.updates.record:dp_sgd",
    "distributed-dp-sgd": "mechanisms.updates.distributed:distributed_dp",
}


class Renamed:
    """Looks like a mechanism of its own, and is the built-in one."""

    def __new__(cls, setting):
        return aldp(setting)


class Records:
    """The same for records."""

    def __new__(cls, setting):
        return dp_sgd(setting)


class Shared:
    """Shared noise with a plan of its own."""

    def __new__(cls, setting):
        return distributed_dp(replace(setting, shared=SharedSetting(3, 0.1, 16.0, 10, 64)))


def made(mechanism: str, *overrides: str):
    return make_mechanism(load_task("digits", [f"privacy.mechanism={mechanism}", *overrides]), SHAPES, 100)


def refusal(mechanism: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        made(mechanism, *overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


REFUSED = [
    ("aldp", (RAW,), "privacy.window_source = 'raw' is refused with privacy.mechanism = "),
    ("aldp", (CLASSIC,), "privacy.window_source = 'raw' is refused with privacy.mechanism = "),
    ("aldp", (AGGREGATE, PUBLIC), "privacy.public_radius = true has no effect"),
    ("ldp", (PUBLIC,), "privacy.public_radius = true has no effect"),
    ("ldp", ("privacy.calibration=linear-classic", AGGREGATE), "window_source = 'aggregate' is not allowed"),
    ("dp-sgd", (CLASSIC,), "calibration = 'linear-classic' is not allowed with 'dp-sgd'"),
    ("dp-sgd", WEIGHTS, "train.loss_args.weight is refused with privacy.mechanism = "),
    ("dp-sgd", ("train.seconds=5",), "train.epochs"),
]


@pytest.mark.parametrize(("name", "overrides", "words"), REFUSED)
def test_what_is_refused_by_name_is_refused_by_import_path(name, overrides, words):
    for mechanism in (name, PATHS[name]):
        assert words in refusal(mechanism, *overrides)


def test_a_class_that_makes_a_built_in_mechanism_is_checked_as_that():
    here = f"{__name__}:"
    assert "allowed: privacy.public_radius=true" in refusal(f"{here}Renamed")
    assert "train.loss_args.weight is refused" in refusal(f"{here}Records", *WEIGHTS)
    assert isinstance(made(f"{here}Renamed", PUBLIC), LocalDP)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("ldp", ()),
        ("aldp", (AGGREGATE,)),
        ("dp-sgd", ()),
        ("aldp", (RAW, PUBLIC)),
        ("aldp", (CLASSIC, PUBLIC)),
    ],
)
def test_what_is_allowed_by_name_is_the_same_by_import_path(name, overrides):
    assert made(PATHS[name], *overrides) == made(name, *overrides)


def test_shared_noise_has_keys_that_only_its_name_brings():
    assert "set privacy.mechanism = 'distributed-dp-sgd'" in refusal(PATHS["distributed-dp-sgd"])
    assert "name it 'distributed-dp-sgd'" in refusal(f"{__name__}:Shared")
