"""Swarms without faults: with peers or a tracker; late, stopped, and resumed."""

from __future__ import annotations

import re
import stat
from dataclasses import replace

import msgpack
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from node.data.dataset import Dataset
from node.options import NodeOptions
from node.runtime.record.events import CaughtUp, RoundStarted
from protocol.vectors.pieces import base_digest
from tests.box.box import Box, few_digits
from tests.run_folders import fact, rows

ADDITIVE = "aggregation.protocol=additive"
HISTORY = {
    *("round", "outcome", "reason", "participants", "loss", "accuracy", "epsilon", "delta"),
    *("bytes_sent", "bytes_received", "train_s", "aggregate_s", "base_digest"),
}
SUMMARY = {
    *("rounds", "aggregated", "fallbacks", "accuracy", "epsilon", "delta", "base_digest"),
    *("bytes_sent", "bytes_received", "seconds"),
}
LATE = {
    "an answer to a READY that is not the current one",
    "a redirection of a READY that is not the current one",
}
"""What a node drops that requested a group from one peer, and then from a later one with a lower key."""
WIDE = 150_000


def ends_of_all(box: Box, rounds: int) -> None:
    """Runs the box, and checks that all nodes were in all rounds, and have one base."""
    box.run_to_the_end()
    for node in box.nodes:
        end = node.summary
        assert (end["rounds"], end["aggregated"], end["finished"], end["offers"]) == (
            rounds,
            rounds,
            True,
            rounds,
        )
        assert [line["participants"] for line in node.history] == [box.count] * rounds
        assert set(end["dropped"]) <= LATE
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1


@pytest.mark.sampled(
    "3-()",
    "4-('aggregation.protocol=additive', 'aggregation.shares=ring')",
    "3-('aggregation.protocol=additive', 'aggregation.shares=float')",
)
@pytest.mark.parametrize(
    ("count", "overrides"),
    [
        (3, ()),
        (5, ("aggregation.bits=16",)),
        (5, (ADDITIVE,)),
        (4, (ADDITIVE, "aggregation.shares=ring")),
        (3, (ADDITIVE, "aggregation.shares=float")),
    ],
    ids=str,
)
def test_peers_end_with_one_base(make_box, count: int, overrides: tuple[str, ...]) -> None:
    box = make_box(count, 4, *overrides)
    box.start_all()
    ends_of_all(box, 4)


def test_a_tracker_introduces_peers_and_sees_no_share(make_box, capsys) -> None:
    box = make_box(3, 4)
    tracker = box.with_tracker()
    box.start_all()
    ends_of_all(box, 4)
    box.run_for(1.0)
    kinds = set(re.findall(rf" {box.count} (?:in|out) (\w+)", "\n".join(box.trace)))
    assert kinds == {"Accepted", "Electors", "Group", "Hello", "Ready", "Roster"}
    told = capsys.readouterr().out
    assert f"at http://{tracker.endpoint}" in told
    assert all(f"{node.endpoint} has left" in told for node in box.nodes)


def wide_rows(options: NodeOptions) -> Dataset:
    """Returns ten rows of many numbers."""
    few = few_digits(options)
    x = torch.from_numpy(np.random.default_rng(5).normal(size=(10, WIDE)).astype(np.float32))
    y = torch.arange(10)
    return replace(few, train_x=x, train_y=y % 2, test_x=x, test_y=y % 2, classes=2)


@pytest.mark.parametrize("shares", ["seed", "ring", "float"])
def test_a_model_of_several_pieces_is_aggregated_every_round(make_box, shares: str) -> None:
    """Above 2^18 parameters shares and sums are bulk, which must not delay the GROUP."""
    wide = (f"model.args.sizes=[{WIDE},2]", ADDITIVE, f"aggregation.shares={shares}")
    box = make_box(3, 2, *wide, "aggregation.group_timeout_s=2", rows=wide_rows)
    box.start_all()
    ends_of_all(box, 2)


def test_a_late_joiner_starts_at_the_swarms_round_with_its_base(make_box) -> None:
    """A stranger: the others do not have it in their --peers."""
    box = make_box(4, 10)
    *early, late = box.nodes
    for node in early:
        node.start("--peers", ",".join(node.endpoint for node in early))
    early[0].when_it_says(late.start, "round 3/")
    box.run_to_the_end()
    assert any(isinstance(event, CaughtUp) for event in late.events)
    joined = 5  # the fourth has begun
    assert [(line["round"], line["participants"]) for line in late.history] == [
        (n, 4) for n in range(joined, 11)
    ]
    assert [line["participants"] for line in early[0].history] == [3] * (joined - 1) + [4] * (11 - joined)
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1


def test_stopped_and_resumed_on_the_same_folder(make_box) -> None:
    box = make_box(3, 6)
    node = box.nodes[2]
    node.when_it_says(node.tell_to_end, "round 2/")
    box.start_all()
    box.run(lambda: node.is_over)
    assert node.status == 130
    stopped = node.summary
    assert (stopped["finished"], stopped["rounds"], len(node.history)) == (False, 2, 2)
    assert fact(node.folder, "round") == 2
    node.start()
    box.run_to_the_end()
    assert any(line.endswith("resumes after round 2") for line in node.lines)
    assert [(line["round"], line["participants"]) for line in node.history] == [(n, 3) for n in range(1, 7)]
    assert node.summary["finished"] is True
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1


def test_what_is_left_in_the_folder(make_box) -> None:
    """Every file of the design, complete; running the same command line again does nothing."""
    box = make_box(3, 3)
    for node in box.nodes:
        (node.folder / "node.key").unlink()
    box.start_all()
    ends_of_all(box, 3)
    node = box.nodes[1]
    out = node.folder
    assert {path.name for path in out.iterdir()} >= {
        *("model.safetensors", "private.safetensors", "summary.json", "history.jsonl", "state.db", "node.key")
    }
    assert stat.S_IMODE((out / "node.key").stat().st_mode) == 0o600
    lines, written = node.history, node.summary
    assert [line["round"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line.keys() >= HISTORY
        assert (line["outcome"], line["reason"]) == ("aggregated", None)
        assert 0 <= line["accuracy"] <= 1
        assert min(line["bytes_sent"], line["bytes_received"], line["aggregate_s"]) > 0
        assert line["train_s"] == 0.0, "training takes no time here"
    assert written.keys() >= SUMMARY
    assert (written["base_digest"], written["accuracy"]) == (lines[-1]["base_digest"], lines[-1]["accuracy"])
    assert (written["epsilon"], written["accuracy_of"]) == (None, "test")
    tensors = load_file(out / "model.safetensors")
    vector = np.concatenate(
        [
            tensors[name].ravel()
            for name in ("layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias")
        ]
    )
    generation = msgpack.unpackb(fact(out, "base"))[0]
    assert base_digest(fact(out, "parameters"), generation, vector).hex() == written["base_digest"]
    assert load_file(out / "private.safetensors").keys() == tensors.keys()
    assert len(rows(out, "select * from ledger")) == 3

    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    begun_s, events = box.loop.time(), len(node.events)
    node.start()
    box.run_to_the_end()
    assert box.loop.time() - begun_s < 4.0
    assert (node.summary["base_digest"], node.summary["rounds"]) == (written["base_digest"], 3)
    assert not any(isinstance(event, RoundStarted) for event in node.events[events:])
    for name in ("model.safetensors", "node.key", "history.jsonl"):
        assert (out / name).read_bytes() == before[name]


@pytest.mark.parametrize("listed", [False, True])
def test_a_node_that_is_not_on_its_own_list_says_so(make_box, tmp_path, listed: bool):
    """Owners send one list around: whoever is not on it is refused by the others, who do not say so here."""
    box = make_box(3, 1)
    keys = [node.key.public.hex() for node in box.nodes[not listed :]]
    (tmp_path / "peers.txt").write_text("\n".join(keys) + "\n")
    node = box.nodes[0]
    node.start("--allow", str(tmp_path / "peers.txt"))
    box.run_for(1.0)
    assert node.has_said("is not in ") != listed
