"""Machines with wrong clocks: rounds go on with all members, and the log names each skew once."""

from __future__ import annotations

import pytest

from tests.box.box import Box

COUNT, ROUNDS = 4, 6
WRONG = 1
"""The number of the node with the wrong clock."""
SKEWS = {100.0: "100 s ahead of", -100.0: "100 s behind", 600.0: "600 s ahead of", -600.0: "600 s behind"}


def all_rounds_of_all(box: Box) -> None:
    """Runs the box, and checks that all nodes were in all rounds."""
    box.run_to_the_end()
    for node in box.nodes:
        assert [(line["round"], line["participants"]) for line in node.history] == [
            (n, box.count) for n in range(1, box.rounds + 1)
        ]


def each_names(box: Box, who: str, is_wrong: str) -> None:
    """Checks that each node has named the wrong clock once."""
    for node in box.nodes:
        (said,) = (line for line in node.lines if " its clock is " in line)
        assert said.startswith(
            f"{'this machine' if node.endpoint == who else who}: its clock is {is_wrong} th"
        )


@pytest.mark.sampled("-600.0-False", "600.0-True")
@pytest.mark.parametrize(
    ("skew_s", "is_tracker"), [(100.0, False), (-600.0, False), (-100.0, True), (600.0, True)]
)
def test_a_wrong_clock_stops_nobody_and_is_named_once(make_box, skew_s: float, is_tracker: bool) -> None:
    """A tracker that was 10 minutes ahead once stopped a whole swarm without a message."""
    box = make_box(COUNT, ROUNDS)
    if is_tracker:
        wrong = box.with_tracker(skew_s=skew_s)
    else:
        wrong = box.nodes[WRONG]
        wrong.skew_s = skew_s
    box.start_all()
    all_rounds_of_all(box)
    each_names(box, wrong.endpoint, SKEWS[skew_s])


def test_who_comes_late_with_a_wrong_clock_is_told_of_its_own_alone(make_box) -> None:
    """It learns of all peers from the first one that answers, before it has heard the others' clocks."""
    box = make_box(COUNT, 3 * ROUNDS)
    late = box.nodes[WRONG]
    late.skew_s = 100.0
    early = [node for node in box.nodes if node is not late]
    for node in early:
        node.start()
    box.run(lambda: all(node.has_aggregated(1) for node in early))
    late.start()
    box.run_to_the_end()
    each_names(box, late.endpoint, SKEWS[100.0])


@pytest.mark.sampled("-600.0")
@pytest.mark.parametrize("skew_s", [600.0, -600.0])
def test_a_clock_that_is_set_in_the_midst_of_a_run_changes_no_round(make_box, skew_s: float) -> None:
    box = make_box(COUNT, 3 * ROUNDS)
    box.network.slowest_s = 0.4  # the run shall last longer than two looks at the clock
    wrong = box.nodes[WRONG]
    wrong.when_it_says(lambda: setattr(wrong, "skew_s", skew_s), "round 1/")
    box.start_all()
    all_rounds_of_all(box)
    way = "forward" if skew_s > 0 else "back"
    assert wrong.has_said(f"this machine: its clock was set {way} by 600 s; rounds do not depend on it")
    each_names(box, wrong.endpoint, SKEWS[skew_s])


def test_a_node_that_was_ahead_and_was_put_right_is_in_the_swarm_at_once(make_box) -> None:
    """It was once locked out for as long as others remembered it: its old messages looked newer."""
    box = make_box(COUNT, 3 * ROUNDS)
    node = box.nodes[WRONG]
    node.skew_s = 100.0
    node.when_it_says(node.kill, "round 2/")
    box.start_all()
    box.run(lambda: node.is_over)
    node.skew_s = 0.0
    node.start()
    all_rounds_of_all(box)
