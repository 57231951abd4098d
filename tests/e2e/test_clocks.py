"""Machines with wrong clocks: rounds go on with all members, and the log names each skew once."""

from __future__ import annotations

import re
import signal

import pytest

from tests.e2e.dying_peer import Orders, WrongClock
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.e2e.swarm import history, one_digest

ROUNDS = 6
SKEWS_S = (100.0, -100.0, 600.0, -600.0)
WRONG = 1
"""The number of the node with the wrong clock."""


def told_of_clocks(node: Process) -> list[str]:
    """Returns what a node with --json reported about clocks: whose, and the skew."""
    return [event["text"] for event in node.events("notice") if " clock " in event["text"]]


def all_rounds_of_all(swarm, ends: list) -> None:
    """Checks that all nodes were in all rounds."""
    one_digest(ends)
    for number in range(swarm.count):
        lines = history(swarm.out(number))
        assert [line["participants"] for line in lines] == [swarm.count] * ROUNDS, lines
        assert {line["reason"] for line in lines} == {None}


def words(skew_s: float) -> str:
    return f"{abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'}"


def close_to(text: str, skew_s: float) -> bool:
    """Returns whether a report names this skew, within the seconds of a busy machine."""
    found = re.search(r"its clock is (\d+) s (ahead of|behind)", text)
    signed = None if found is None else int(found[1]) * (1 if found[2] == "ahead of" else -1)
    return signed is not None and abs(signed - skew_s) <= 5


@pytest.mark.parametrize("skew_s", SKEWS_S)
def test_a_node_with_a_wrong_clock_is_in_every_round_and_named_once(make_swarm, skew_s: float) -> None:
    swarm = make_swarm(4, ROUNDS, "aggregation.min_participants=4")
    nodes = swarm.start_all({WRONG: Orders(clock=WrongClock(skew_s))})
    all_rounds_of_all(swarm, [node.ends_well() for node in nodes])

    for number, node in enumerate(nodes):
        (said,) = told_of_clocks(node)
        assert close_to(said, skew_s), said
        who = "this machine" if number == WRONG else swarm.endpoints[WRONG]
        assert said.startswith(f"{who}: "), said


def test_who_comes_late_with_a_wrong_clock_is_told_of_its_own_alone(make_swarm) -> None:
    """It learns of all peers from the first one that answers, before it has heard the others' clocks."""
    swarm = make_swarm(4, 3 * ROUNDS)
    nodes = {number: swarm.start(number) for number in range(swarm.count) if number != WRONG}
    for node in nodes.values():
        node.event("round", outcome="aggregated")
    nodes[WRONG] = swarm.start(WRONG, orders=Orders(clock=WrongClock(100.0)))
    one_digest([node.ends_well() for node in nodes.values()])

    for number, node in nodes.items():
        (said,) = told_of_clocks(node)
        assert said.startswith(f"{'this machine' if number == WRONG else swarm.endpoints[WRONG]}: "), said


@pytest.mark.parametrize("skew_s", SKEWS_S)
def test_a_tracker_with_a_wrong_clock_stops_nobody(make_swarm, nursery: Nursery, skew_s: float) -> None:
    """A tracker that was 10 minutes ahead once stopped a whole swarm without a message."""
    where = free_endpoint()
    swarm = make_swarm(4, ROUNDS, "aggregation.min_participants=4", tracker=where)
    tracker = nursery.tracker("--listen", where, orders=Orders(clock=WrongClock(skew_s)))
    tracker.line("tracker ")
    nodes = swarm.start_all()
    all_rounds_of_all(swarm, [node.ends_well() for node in nodes])

    for node in nodes:
        (said,) = told_of_clocks(node)
        assert close_to(said, skew_s), said
        assert said.startswith(f"{where}: "), said


@pytest.mark.parametrize("skew_s", [600.0, -600.0])
def test_a_clock_that_is_set_in_the_midst_of_a_run_changes_no_round(make_swarm, skew_s: float) -> None:
    swarm = make_swarm(4, 1_000_000)
    nodes = swarm.start_all({WRONG: Orders(clock=WrongClock(skew_s, after_s=4.0))})
    way = "forward" if skew_s > 0 else "back"
    nodes[WRONG].line(f"this machine: its clock was set {way} by 600 s")
    for number, node in enumerate(nodes):
        if number != WRONG:
            node.line(f"{swarm.endpoints[WRONG]}: its clock is {words(skew_s)} this machine's")
    for node in nodes:
        node.send(signal.SIGINT)
    for node in nodes:
        assert node.status() == 130
    for number in range(swarm.count):
        lines = history(swarm.out(number))[:-2]  # at the end one leaves before the other
        assert {line["reason"] for line in lines} == {None}
        assert {line["participants"] for line in lines} == {swarm.count}


def test_a_node_that_was_ahead_and_was_put_right_is_in_the_swarm_at_once(make_swarm) -> None:
    """It was once locked out for as long as others remembered it: its old messages looked newer."""
    swarm = make_swarm(4, 3 * ROUNDS)
    nodes = swarm.start_all({WRONG: Orders(clock=WrongClock(100.0))})
    nodes[WRONG].event("round", round=2)
    nodes[WRONG].kill()
    again = swarm.start(WRONG)
    nodes[WRONG] = again
    back = again.event("round", outcome="aggregated")
    assert back["participants"] == swarm.count
    one_digest([node.ends_well() for node in nodes])
