"""A task from somebody else: what it says of data, and what it would run."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.init.task_file import MARK
from node.invitation.foreign import check_portable, foreign_code, marked_lines
from node.system.errors import ConfigError
from node.task.load import load_task, read_task


def task(*overrides: str):
    return load_task("digits", overrides)


def test_marked_lines_are_shown_without_their_mark_and_the_head_is_none():
    text = f"""\
#   {MARK}
[train]
expected_rows = 3000    {MARK}: rows
epochs = 1
columns = [    {MARK}: all names below
  {{ name = "{"long" * 40}" }},    {MARK}: mean, std
"""
    first, second, third = marked_lines(text.encode())
    assert first == "expected_rows = 3000"
    assert second == "columns = ["
    assert third.endswith("...")
    assert len(third) == 103


def test_the_models_of_the_program_are_nobodys_code():
    assert foreign_code(task()) == []


@pytest.mark.parametrize(
    "named",
    [
        "model.class=subprocess:Popen",
        "model.class=node.models.networks:torch.hub.load",
        "model.class=node.modelsx:Evil",
        "train.optimizer=os:system",
        "train.schedule=os:system",
        "train.loss=os:system",
        "privacy.mechanism=os:system",
    ],
)
def test_whatever_else_a_task_names_by_import_path_is_foreign(named):
    assert foreign_code(task(named)) == [named.partition("=")[2]]


def test_what_makes_a_learner_and_what_it_adapts_are_foreign():
    model = {"learner": "node.learners.flower:flower_client", "args": {"client": "os:system", "name": "a"}}
    made = read_task({"task": {"name": "a"}, "model": model})
    assert foreign_code(made) == [model["learner"], "os:system"]


def test_a_task_with_weights_is_not_sent():
    check_portable(task(), Path("ward.toml"))
    with pytest.raises(ConfigError, match=r"ward\.toml names model\.weights"):
        check_portable(task("model.weights=body.safetensors"), Path("ward.toml"))
