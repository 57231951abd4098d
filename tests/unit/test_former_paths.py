"""Imports and task keys that were documented before the modules stood in folders go on working."""

from importlib import import_module

import pytest

from node.task.import_path import import_class

FORMER = (
    (
        "mechanisms.audit",
        "mechanisms.audits.audit",
        ("Method", "Pair", "distinguish", "each_row", "lower_bound"),
    ),
    ("mechanisms.gaussian", "mechanisms.accounting.gaussian", ("noise_std", "delta")),
    ("mechanisms.labels", "mechanisms.labels.flips", ("LabelDP",)),
    ("mechanisms.noise", "mechanisms.noise.noise", ("noised",)),
    ("mechanisms.randomness", "mechanisms.noise.randomness", ("SystemWords", "Words")),
    ("mechanisms.robust_server", "mechanisms.servers.robust_server", ("Robust",)),
    ("mechanisms.server", "mechanisms.servers.server", ("Federation", "PlainTraining", "fixed_sample")),
    ("scenarios.models", "scenarios.data.models", ("Logistic", "SmallCNN")),
)


@pytest.mark.parametrize(("former", "present", "names"), FORMER, ids=[former for former, _, _ in FORMER])
def test_what_stood_there_is_there(former, present, names):
    for name in names:
        assert getattr(import_module(former), name) is getattr(import_module(present), name)


@pytest.mark.parametrize(
    "key", ["mechanisms.robust_server:Robust", "mechanisms.labels:LabelDP", "scenarios.models:SmallCNN"]
)
def test_a_task_key_names_the_class_that_moved(key):
    module, _, name = key.partition(":")
    assert import_class(key).__name__ == name
    assert import_module(module)
