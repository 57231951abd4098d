"""The radius of `aldp`: covered by default; one of raw norms is declared public, or refused."""

import json

import numpy as np
import pytest

from node.storage.state import Owner, State
from node.task.load import load_task, read_kept_task, read_task
from node.task.parameters import canonical_parameters, former_parameters
from protocol.crypto.node_key import NodeKey
from protocol.wire.signing import parameters_hash
from tests.own_data import told

ALDP, RAW = "privacy.mechanism=aldp", "privacy.window_source=raw"
PUBLIC, CLASSIC = "privacy.public_radius=true", "privacy.calibration=linear-classic"


def refusal(*overrides):
    return told(load_task, "digits", overrides)


def text(*overrides):
    return canonical_parameters(load_task("digits", overrides), [("w", (2,))], 4.0)


def test_aldp_alone_follows_agreed_models():
    privacy = load_task("digits", [ALDP]).privacy
    assert (privacy.radius_follows, privacy.shows_radius) == ("aggregate", False)


@pytest.mark.parametrize(
    ("overrides", "covered"),
    [((ALDP, RAW), "privacy.window_source=aggregate"), ((ALDP, CLASSIC), "privacy.mechanism=ldp")],
)
def test_raw_norms_are_refused_unless_they_are_declared_public(overrides, covered):
    line = refusal(*overrides)
    assert "privacy.window_source = 'raw' is refused" in line
    assert "privacy.public_radius=true" in line
    assert covered in line
    assert load_task("digits", [*overrides, PUBLIC]).privacy.shows_radius


@pytest.mark.parametrize(
    "overrides",
    [
        (ALDP,),
        (ALDP, "privacy.window_source=quantile"),
        ("privacy.mechanism=ldp",),
        ("privacy.mechanism=ldp", RAW),
    ],
)
def test_public_radius_without_a_radius_of_raw_norms_has_no_effect(overrides):
    load_task("digits", overrides)
    assert refusal(*overrides, PUBLIC).startswith("privacy.public_radius = true has no effect")


@pytest.mark.parametrize("mechanism", ["none", "ldp", "dp-sgd", "my.own:Class"])
def test_swarms_of_other_mechanisms_have_the_parameters_that_they_had(mechanism):
    privacy = json.loads(text(f"privacy.mechanism={mechanism}"))["privacy"]
    assert privacy["window_source"] == "raw"
    assert "public_radius" not in privacy


def test_a_folder_of_raw_norms_goes_on_once_both_words_are_said():
    agreed, raw = text(ALDP), text(ALDP, RAW, PUBLIC)
    assert json.loads(raw)["privacy"]["window_source"] == "raw"
    assert list(former_parameters(load_task("digits", [ALDP]), agreed)) == [raw]
    for other in ((), (ALDP, RAW, PUBLIC), (ALDP, "privacy.window_source=quantile")):
        assert former_parameters(load_task("digits", other), text(*other)) == {}


def test_who_starts_such_a_folder_without_them_is_told_how_to_go_on(tmp_path):
    key, start = NodeKey(bytes(32)).public, np.zeros(2, np.float32)

    def opened(formerly, *overrides):
        owner = Owner("digits", parameters_hash(text(*overrides)), key, formerly)
        return State(tmp_path, owner, start, None)

    opened({}, ALDP, RAW, PUBLIC).close()
    former = former_parameters(load_task("digits", [ALDP]), text(ALDP))
    line = told(opened, {parameters_hash(old): remedy for old, remedy in former.items()}, ALDP)
    assert "set privacy.window_source=raw and privacy.public_radius=true at all" in line
    assert "start with the same --set and task file as before" in told(opened, {})


def test_a_model_of_before_can_be_read_and_a_task_of_before_must_say_it():
    model = {"class": "node.models:MLP", "args": {"sizes": [64, 10]}}
    table = {"task": {"name": "digits"}, "model": model}
    raw = {**table, "privacy": {"mechanism": "aldp", "window_source": "raw"}}
    assert "public_radius" in told(read_task, raw)
    assert read_kept_task(raw).privacy.shows_radius
    assert not read_kept_task({**table, "privacy": {"mechanism": "aldp"}}).privacy.public_radius
