"""Nodes under TLS and without: both sides say which is which, and say it again when that has changed."""

from __future__ import annotations

import pytest

from node.net.tls import not_met
from tests.box.box import Box, BoxNode

WAITING = ("--wait", "forever")


def other(tls: str) -> str:
    return "off" if tls == "on" else "on"


def cannot(node: BoxNode, why: str) -> str:
    return f"{node.endpoint} cannot be reached ({why}); trying again"


def unlike(node: BoxNode, tls: str) -> str:
    """What a node with `tls` says of one with another choice."""
    return cannot(node, not_met(under_tls=tls == "on"))


def end(box: Box, node: BoxNode) -> None:
    node.tell_to_end()
    box.run(lambda: node.is_over)


@pytest.mark.parametrize("tls", ["on", "off"])
def test_both_sides_say_so_whoever_came_first_and_say_when_it_is_mended(make_box, tls: str) -> None:
    """Before, who had found nobody there never said that somebody with another --tls had come."""
    box: Box = make_box(3, 1, options=("--tls", tls))
    here, there, third = box.nodes
    here.start(*WAITING)
    box.run(lambda: here.has_said(cannot(there, "connection refused")))
    there.start(*WAITING, "--tls", other(tls))
    box.run(lambda: here.has_said(unlike(there, tls)) and there.has_said(unlike(here, other(tls))), 10.0)
    box.run_for(60)
    assert here.lines.count(unlike(there, tls)) == 1
    end(box, there)
    box.run(lambda: here.lines.count(cannot(there, "connection refused")) == 2, 10.0)
    there.start(*WAITING)
    box.run(lambda: here.has_said(f"{there.endpoint} is here"), 10.0)
    third.start(*WAITING)
    box.run_to_the_end()


@pytest.mark.parametrize("tls", ["on", "off"])
def test_one_that_left_and_is_back_with_another_choice_is_told_too(make_box, tls: str) -> None:
    """It said goodbye, so the others do not dial it until it has dialled them."""
    box: Box = make_box(3, 3, "aggregation.group_timeout_s=300", options=("--tls", tls))
    box.start_all()
    gone = box.nodes[2]
    box.run(lambda: all(node.has_aggregated(1) for node in box.nodes))
    end(box, gone)
    box.run_for(30)
    gone.start("--tls", other(tls))
    box.run(lambda: all(node.has_said(unlike(gone, tls)) for node in box.nodes[:2]), 10.0)
    box.run_for(30)
    assert [node.lines.count(unlike(gone, tls)) for node in box.nodes[:2]] == [1, 1]
    end(box, gone)
    gone.start()
    box.run_to_the_end()
