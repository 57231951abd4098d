"""What options say of the swarm before a node starts."""

from __future__ import annotations

from node.app.start_checks import named_members
from node.options import parse_arguments

PEERS = ("127.0.0.1:9001", "127.0.0.1:9002")


def test_a_node_whose_port_the_system_chooses_is_one_member_under_the_port_that_it_got():
    options = parse_arguments(["--peers", ",".join(PEERS), "--listen", "127.0.0.1:0"])
    assert len(named_members(options)) == 3
    assert named_members(options, "127.0.0.1:40001") == {*PEERS, "127.0.0.1:40001"}


def test_a_node_that_names_itself_is_one_member():
    options = parse_arguments(["--peers", ",".join(PEERS), "--listen", PEERS[0]])
    assert named_members(options) == named_members(options, PEERS[0]) == set(PEERS)
