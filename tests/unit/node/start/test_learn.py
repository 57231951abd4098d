"""From a swarm's folder to the options of a node, and what a folder must hold for that."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from node.app.start_checks import allowed, check_others, nicknames
from node.invitation.key import key_file, made_key
from node.invitation.node_options import statistics_options, swarm_options
from node.options import NodeOptions
from node.start import __main__ as start
from node.stats import __main__ as stats
from node.storage.key_file import write_key
from node.storage.swarm_file import TASK, Own, Swarm, write_swarm
from node.system.errors import ConfigError
from protocol.wire.endpoints import of_key
from tests.invitations import INVITER, JOINER, MEMBERS, OTHER, closed

TEXT = b"""\
[task]
name = "ward"
[model]
class = "node.models:Linear"
args = { inputs = 4, outputs = 2 }
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    key_file(tmp_path).parent.mkdir()
    write_key(key_file(tmp_path), bytes([2]) * 32)
    write_swarm(tmp_path, Swarm(closed(task=TEXT), Own(str(tmp_path / "b.csv"))))
    (tmp_path / TASK).write_bytes(TEXT)
    return tmp_path


def test_a_node_of_a_swarm_reaches_its_members_by_their_keys(folder):
    options = swarm_options(folder)
    assert {peer.endpoint: peer.key for peer in options.peers} == {
        of_key(member.key): member.key for member in MEMBERS
    }
    assert options.out == folder
    assert options.data == folder / "b.csv"
    assert options.wait_s == math.inf
    assert options.swarm.roster == closed(task=TEXT)
    assert options.swarm_folder == folder
    assert options.roster == closed(task=TEXT).digest


def test_allow_list_and_names_follow_from_the_list_and_no_name_is_looked_up(folder):
    options = swarm_options(folder)
    assert allowed(options) == {INVITER.public, JOINER.public, OTHER.public}
    assert nicknames(options).names == {member.key: member.name for member in MEMBERS}
    check_others(options)


def test_whom_the_owner_removed_is_no_peer(folder):
    swarm = Swarm(closed(task=TEXT), Own("b.csv")).without(OTHER.public)
    write_swarm(folder, swarm)
    assert allowed(swarm_options(folder)) == {INVITER.public, JOINER.public}


def test_further_options_are_a_nodes_and_the_folder_stays(folder):
    assert swarm_options(folder, ["--rounds", "3"]).rounds == 3
    assert swarm_options(folder, ["--out", "elsewhere"]).out == folder
    with pytest.raises(ConfigError):
        swarm_options(folder, ["--no-such-option"])


def test_a_task_that_was_changed_is_not_learned(folder):
    (folder / TASK).write_bytes(TEXT + b"# changed\n")
    with pytest.raises(ConfigError, match=r"task\.toml is not the task of this list"):
        swarm_options(folder)
    (folder / TASK).unlink()
    with pytest.raises(ConfigError, match=r"task\.toml is not the task of this list"):
        swarm_options(folder)


def test_a_key_that_is_gone_or_not_on_the_list_ends_it(folder):
    key_file(folder).unlink()
    with pytest.raises(ConfigError, match="is gone"):
        swarm_options(folder)
    made_key(folder)
    with pytest.raises(ConfigError, match="is not on the list"):
        swarm_options(folder)


def test_a_key_is_made_once(tmp_path):
    key = made_key(tmp_path / "runs" / "ward")
    assert made_key(tmp_path / "runs" / "ward").public == key.public


@pytest.mark.parametrize("command", [start, stats])
def test_a_swarm_s_statistics_are_computed_with_its_list(folder, command, one_line):
    text = b"""\
[task]
name = "ward"
[statistics]
[data.schema]
kind = "table"
target = { kind = "classes", name = "died", values = ["no", "yes"] }
columns = [{ name = "age", kind = "number", mean = 50.0, std = 9.0, low = 0.0, high = 120.0 }]
"""
    write_swarm(folder, Swarm(closed(task=text), Own(str(folder / "b.csv"))))
    (folder / TASK).write_bytes(text)
    (folder / "b.csv").write_text("age,died\n" + "70,yes\n" * 19)
    assert "has 19 rows; allowed by statistics.least_rows: 20 or more" in one_line(
        command.main, [str(folder)]
    )
    options = statistics_options(NodeOptions, folder)
    assert (options.out, options.key) == (folder / "statistics", key_file(folder))
    assert options.roster == closed(task=text).digest
