"""What the others are told when a node leaves: one line, with who and why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from node.cli.logs import JsonLines
from node.data.dataset import Dataset
from node.options import NodeOptions
from tests.box.box import Box, few_digits

SOON = "aggregation.group_timeout_s=2"


def huge_third(options: NodeOptions) -> Dataset:
    """Returns a node's rows; nobody can learn from those of the third one."""
    rows = few_digits(options)
    is_third = options.shard is not None and options.shard[0] == 2
    return replace(rows, train_x=rows.train_x * torch.inf) if is_third else rows


def goodbyes(box: Box, number: int) -> list[str]:
    """Returns what a node has said of those that left, without their keys."""
    return [line.partition(" (key ")[0] for line in box.nodes[number].lines if " has left" in line]


def test_a_node_that_diverges_tells_the_others_why_it_leaves(make_box):
    box = make_box(3, 3, SOON, rows=huge_third)
    box.start_all()
    box.run_to_the_end()
    assert [node.status for node in box.nodes] == [1, 1, 1]
    assert box.nodes[0].lines[-1].startswith("error: 3 rounds alone in a row, after round 0 of 3")
    assert box.nodes[2].lines[-1].startswith("error: training diverged in round 1")
    why = "has left: its training diverged, to a loss or an update that is not finite"
    for number in (0, 1):
        assert goodbyes(box, number)[0] == f"{box.nodes[2].endpoint} {why}"
        assert {line["outcome"] for line in box.nodes[number].history} == {"fallback"}


@pytest.mark.parametrize(
    ("is_told", "why", "status"), [(True, "its owner stopped it", 130), (False, "its last round is over", 0)]
)
def test_a_node_that_leaves_in_the_midst_says_why_and_the_others_go_on(make_box, is_told, why, status):
    box = make_box(4, 6)
    *others, first = box.nodes
    for node in others:
        node.start()
    first.start(*(() if is_told else ("--rounds", "2")))
    if is_told:
        first.when_it_says(first.tell_to_end, "round 2/")
    box.run_to_the_end()
    assert [node.status for node in box.nodes] == [0, 0, 0, status]
    for node in others:
        assert goodbyes(box, node.number)[0] == f"{first.endpoint} has left: {why}"
        assert [line["participants"] for line in node.history] == [4, 4, 3, 3, 3, 3]


def test_names_that_the_owner_gave_stand_in_place_of_digits(make_box, tmp_path, caplog):
    caplog.set_level("INFO")
    box = make_box(3, 3)
    node, _, named = box.nodes
    (tmp_path / "names.txt").write_text(f"ward c = {named.key.public.hex()}\n")
    node.start("--names", str(tmp_path / "names.txt"))
    for other in box.nodes[1:]:
        other.start()
    named.when_it_says(named.tell_to_end, "round 1/")
    box.run(node.has_aggregated)
    assert node.engine.inspector.called([other.endpoint for other in box.nodes[1:]]) == (
        box.nodes[1].endpoint,
        f"ward c ({named.endpoint})",
    )
    box.run_to_the_end()
    assert node.has_said(f"{named.endpoint} is here (ward c)")
    assert node.has_said(f"{named.endpoint} has left: its owner stopped it (ward c)")
    logged = [json.loads(JsonLines(tracebacks=False).format(record)) for record in caplog.records]
    (left,) = (line for line in logged if line["event"] == "peer-left" and line.get("name"))
    assert (left["name"], left["key"], left["why"]) == (
        "ward c",
        named.key.public.hex()[:8],
        "its owner stopped it",
    )
