"""The benchmark of starting times the right thing, and does not take an error for a first line."""

from __future__ import annotations

import pytest

from benchmarks.starting import STARTED, Taken, _first_line, _help
from node.cli.commands import COMMANDS
from node.errors import UserError


def test_it_starts_commands_that_there_are():
    assert set(STARTED) <= {command.name for command in COMMANDS}


def test_help_and_first_line_take_their_time():
    for taken in (_help("node.cli.completion"), _first_line("node.tracker", STARTED["tracker"])):
        assert isinstance(taken, Taken)
        assert min(taken.wall_s, taken.cpu_s) > 0


def test_a_complaint_is_no_first_line():
    with pytest.raises(UserError, match=r"starting: node.tracker said error: --listen HOST:PORT is missing"):
        _first_line("node.tracker", ())
