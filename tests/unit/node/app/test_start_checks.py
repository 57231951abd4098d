"""What options say of the swarm before a node starts."""

from __future__ import annotations

import io

import pytest

from node.app.run import opened, prepare
from node.app.start_checks import named_members
from node.init import __main__ as init
from node.observe.lines import TextOutput
from node.options import parse_arguments
from node.system.errors import ConfigError
from tests.jobs import prepare_squares
from tests.own_data import ward

PEERS = ("127.0.0.1:9001", "127.0.0.1:9002")


def test_a_node_whose_port_the_system_chooses_is_one_member_under_the_port_that_it_got():
    options = parse_arguments(["--peers", ",".join(PEERS), "--listen", "127.0.0.1:0"])
    assert len(named_members(options)) == 3
    assert named_members(options, "127.0.0.1:40001") == {*PEERS, "127.0.0.1:40001"}


def test_a_node_that_names_itself_is_one_member():
    options = parse_arguments(["--peers", ",".join(PEERS), "--listen", PEERS[0]])
    assert named_members(options) == named_members(options, PEERS[0]) == set(PEERS)


def test_a_start_with_too_few_members_for_exact_sums_is_refused_and_leaves_nothing(tmp_path):
    out = tmp_path / "out"
    where = ("--peers", PEERS[0], "--listen", "127.0.0.1:0", "--shard", "0/9", "--out", str(out))
    prepared = prepare_squares(parse_arguments(where))
    words = "--peers names 2 members, this node among them; allowed: 3 or more"
    with pytest.raises(ConfigError, match=words), opened(prepared, None, TextOutput(io.StringIO())):
        pass
    assert not out.exists()


def test_rounds_of_a_model_by_exact_sums_are_refused(tmp_path):
    (tmp_path / "ward.csv").write_text(ward(200))
    task = tmp_path / "ward.toml"
    data = ("--data", str(tmp_path / "ward.csv"))
    asked = ("--target", "outcome", "--privacy", "none", "--model", "additive", "--out", str(task))
    assert init.main([*data, *asked]) == 0
    options = parse_arguments(["--task", str(task), *data, "--peers", ",".join(PEERS), "--rounds", "7"])
    with pytest.raises(ConfigError, match="--rounds 7 is refused with model"):
        prepare(options)
