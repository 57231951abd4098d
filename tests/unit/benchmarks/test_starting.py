"""The benchmark of starting times the right thing, and does not take an error for a first line."""

import os
import time

import pytest

from benchmarks.memory.residence import cpu_seconds, resident_bytes
from benchmarks.started_nodes import _private_bytes, _wait_for_start
from benchmarks.starting import STARTED, CommandTime, _time_first_line, _time_help
from node.cli.commands import COMMANDS
from node.system.errors import UserError


def test_help_and_first_line_take_their_time_but_no_complaint():
    for taken in (_time_help("node.cli.completion"), _time_first_line("node.tracker", STARTED["tracker"])):
        assert isinstance(taken, CommandTime)
        assert min(taken.wall_s, taken.cpu_s) > 0
    assert set(STARTED) <= {command.name for command in COMMANDS}
    with pytest.raises(UserError, match=r"starting: node.tracker said error: --listen HOST:PORT is missing"):
        _time_first_line("node.tracker", ())


def test_a_process_s_time_and_private_memory_are_those_of_the_system():
    assert cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.1)
    before = _private_bytes(os.getpid())
    own = bytearray(os.urandom(2**25))
    assert before + len(own) // 2 < _private_bytes(os.getpid()) <= resident_bytes("self", "VmRSS") + 2**20


def test_a_node_that_ends_has_not_started(tmp_path):
    log = tmp_path / "log"
    log.write_text("starting\nerror: no data\n")
    with pytest.raises(UserError, match="starting: a node ended, or took 120 s: error: no data"):
        _wait_for_start(os.getpid(), log, time.perf_counter(), lambda: False)
