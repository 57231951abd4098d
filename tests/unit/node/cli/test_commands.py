"""The table of commands, and what is made from it."""

from __future__ import annotations

import argparse
import sys

import pytest

from node.cli.commands import COMMANDS, program, usage
from node.cli.completion import table
from node.cli.murmuration import help_text


def test_every_command_has_a_main_a_command_line_and_a_line_of_its_own():
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    for command in COMMANDS:
        assert command.is_here()
        loaded = command.load()
        assert callable(loaded.main)
        assert isinstance(loaded.command_line(), argparse.ArgumentParser)
        assert f"\n  {command.name:10}  {command.summary}\n" in help_text()


def test_the_help_fits_a_terminal():
    assert max(map(len, help_text().splitlines())) <= 100


@pytest.mark.parametrize(
    ("argv", "called"),
    [
        (["/usr/bin/murmuration", "bench"], "murmuration bench"),
        (["/repository/benchmarks/__main__.py"], "python -m benchmarks"),
        ([], "python -m benchmarks"),
    ],
)
def test_a_command_is_called_as_it_was_started(monkeypatch, argv, called):
    monkeypatch.setattr(sys, "argv", argv)
    assert program("benchmarks") == called
    assert usage("benchmarks", "NAME", "[--quick]") == (
        f"usage: {called} NAME\n{' ' * len(f'usage: {called} ')}[--quick]"
    )


def test_what_may_follow_is_read_off_the_parsers():
    words = dict(table())

    assert words["murmuration"] == [command.name for command in COMMANDS]
    assert words["murmuration scenarios data"][0] == "digits"
    assert words["murmuration scenarios run --engine"] == ["inline", "processes", "ray"]
    assert "--quick" in words["murmuration bench tls -"]
    assert words["murmuration node --data"] == []
    assert "murmuration node --open" not in words
    assert words["murmuration check -"] == words["murmuration node -"]
    assert set(words["murmuration agree -"]) - set(words["murmuration node -"]) == {
        *("--write", "--force", "--leave-out-missing", "--also-class"),
    }
