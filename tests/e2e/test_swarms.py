"""Swarms without faults: with peers, a tracker or own data; late, stopped, and resumed."""

from __future__ import annotations

import json
import pty
import signal
import stat
from pathlib import Path

import msgpack
import numpy as np
import pytest
from safetensors.numpy import load_file

from protocol.vectors.pieces import base_digest
from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import ADDITIVE, SMALL, fact, frozen, history, one_digest, rows, settings, summary

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


@pytest.mark.parametrize(
    ("count", "overrides"),
    [
        (3, ()),
        (5, ()),
        (5, (ADDITIVE,)),
        (4, (ADDITIVE, "aggregation.shares=ring")),
        (3, (ADDITIVE, "aggregation.shares=float")),
    ],
    ids=str,
)
def test_peers_end_with_one_base(make_swarm, count: int, overrides: tuple[str, ...]) -> None:
    swarm = make_swarm(count, 4, *overrides)
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    for end in ends:
        assert (end["rounds"], end["aggregated"], end["fallbacks"], end["finished"]) == (4, 4, 0, True)
        assert end["offers"] == 4
        assert set(end["dropped"]) <= LATE


def test_a_tracker_introduces_peers_and_sees_no_share(make_swarm, nursery: Nursery) -> None:
    where = free_endpoint()
    tracker = nursery.tracker("--listen", where)
    tracker.line(f"at http://{where}")
    swarm = make_swarm(3, 4, tracker=where)
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    assert all(end["aggregated"] == 4 for end in ends)
    for endpoint in swarm.endpoints:
        tracker.line(f"{endpoint} has left")
    tracker.send(signal.SIGINT)
    assert tracker.status() == 0
    assert tracker.err.all() == []


def test_each_peer_with_a_file_of_its_own(nursery: Nursery, tmp_path: Path) -> None:
    """Two CSV files and an npz, and one task file with a small model."""
    rng = np.random.default_rng(5)
    (tmp_path / "ward.toml").write_text(
        """
        [task]
        name = "ward"
        [model]
        class = "node.models:Linear"
        args = { inputs = 3, outputs = 2 }
        [data]
        test_fraction = 0.25
        [train]
        rounds = 3
        batch_size = 8
        """
    )
    files = [tmp_path / name for name in ("a.csv", "b.csv", "c.npz")]
    for path in files:
        x = rng.normal(size=(60, 3))
        y = (x.sum(axis=1) > 0).astype(int)
        if path.suffix == ".npz":
            np.savez(path, x=x.astype(np.float32), y=y)
        else:
            lines = [",".join(map(str, (*row, label))) for row, label in zip(x, y, strict=True)]
            path.write_text("\n".join(["age,dose,days,ill", *lines]) + "\n")
    peers = [free_endpoint() for _ in files]
    nodes = [
        nursery.fork(
            *("--peers", ",".join(peers), "--listen", peer, "--task", str(tmp_path / "ward.toml"), "--json"),
            *("--data", str(path), "--out", str(tmp_path / path.stem)),
        )
        for peer, path in zip(peers, files, strict=True)
    ]
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    for node, end, path in zip(nodes, ends, files, strict=True):
        assert (end["aggregated"], end["accuracy_of"], end["task"]) == (3, "validation", "ward")
        assert end["accuracy"] > 0.6
        assert path.name in node.event("started")["data"]
        tensors = load_file(tmp_path / path.stem / "model.safetensors")
        assert sum(tensor.size for tensor in tensors.values()) == 8


@pytest.mark.parametrize("shares", ["seed", "ring", "float"])
def test_a_model_of_several_pieces_is_aggregated_every_round(
    nursery: Nursery, tmp_path: Path, shares
) -> None:
    """Above 2^18 parameters shares and sums are bulk, which must not delay the GROUP."""
    inputs = 150_000
    (tmp_path / "wide.toml").write_text(
        f"""
        [task]
        name = "wide"
        [model]
        class = "node.models:Linear"
        args = {{ inputs = {inputs}, outputs = 2 }}
        [train]
        rounds = 2
        epochs = 1
        learning_rate = 0.001
        """
    )
    rng = np.random.default_rng(5)
    peers = [free_endpoint() for _ in range(3)]
    nodes = []
    for number, peer in enumerate(peers):
        path = tmp_path / f"{number}.npz"
        np.savez(path, x=rng.normal(size=(10, inputs)).astype(np.float32), y=np.arange(10) % 2)
        nodes.append(
            nursery.fork(
                *(
                    "--peers",
                    ",".join(peers),
                    "--listen",
                    peer,
                    "--task",
                    str(tmp_path / "wide.toml"),
                    "--json",
                ),
                *("--data", str(path), "--out", str(tmp_path / str(number))),
                *settings(ADDITIVE, f"aggregation.shares={shares}", "aggregation.group_timeout_s=20"),
            )
        )
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    assert [end["aggregated"] for end in ends] == [2, 2, 2]


def test_a_late_joiner_starts_at_the_swarms_round_with_its_base(make_swarm) -> None:
    """A stranger: the others do not have it in their --peers."""
    swarm = make_swarm(4, 10, listed=3)
    early = [swarm.start(number) for number in range(3)]
    early[0].event("round", round=3)
    with frozen(early):
        late = swarm.start(3)
        late.event("training")
    ends = [node.ends_well() for node in (*early, late)]
    one_digest(ends)
    assert late.events("caught-up")
    mine = history(swarm.out(3))
    assert mine[0]["round"] >= 4
    assert mine[-1]["round"] == 10
    assert mine[-1]["participants"] == 4
    assert ends[3]["fallbacks"] == 0


def test_stopped_by_ctrl_c_and_resumed_on_the_same_folder(make_swarm) -> None:
    swarm = make_swarm(3, 6)
    first, second, third = swarm.start_all()
    third.event("round", round=2)
    third.send(signal.SIGINT)
    assert third.status() == 130
    assert third.err.all() == []
    stopped = summary(swarm.out(2))
    assert (stopped["finished"], stopped["rounds"]) == (False, len(history(swarm.out(2))))
    assert third.event("finished")["finished"] is False
    assert fact(swarm.out(2), "round") == stopped["rounds"]
    assert first.line("has left")
    again = swarm.start(2)
    assert f"resumes after round {stopped['rounds']}" in again.event("started")["task"]
    ends = [node.ends_well() for node in (first, second, again)]
    one_digest(ends)
    numbers = [line["round"] for line in history(swarm.out(2))]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 6
    assert ends[2]["key"] == stopped["key"] == swarm.keys[2].hex()
    assert summary(swarm.out(2))["finished"] is True


def test_what_is_left_in_the_folder(make_swarm) -> None:
    """Every file of the design, complete; running the same command line again does nothing."""
    swarm = make_swarm(3, 3)
    for out in map(swarm.out, range(3)):
        (out / "node.key").unlink()
        out.rmdir()
    ends = [node.ends_well() for node in swarm.start_all()]
    out = swarm.out(1)
    assert {path.name for path in out.iterdir()} >= {
        *("model.safetensors", "private.safetensors", "summary.json", "history.jsonl", "state.db", "node.key")
    }
    assert stat.S_IMODE((out / "node.key").stat().st_mode) == 0o600
    lines = history(out)
    assert [line["round"] for line in lines] == [1, 2, 3]
    for line in lines:
        assert line.keys() >= HISTORY
        assert (line["outcome"], line["reason"], line["participants"]) == ("aggregated", None, 3)
        assert 0 <= line["accuracy"] <= 1
        assert min(line["bytes_sent"], line["bytes_received"], line["train_s"], line["aggregate_s"]) > 0
    written = summary(out)
    assert written.keys() >= SUMMARY
    assert ends[1] == {"event": "finished", **written} | {
        name: pytest.approx(written[name], abs=1e-6) for name in ("accuracy", "seconds")
    }
    assert written["base_digest"] == lines[-1]["base_digest"]
    assert (written["rounds"], written["epsilon"], written["accuracy_of"]) == (3, None, "test")
    assert written["accuracy"] == lines[-1]["accuracy"]
    _is_the_base(out, written["base_digest"])
    assert len(rows(out, "select * from ledger")) == 3
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    alone = swarm.start(1)
    again = alone.ends_well(4.0)
    assert (again["base_digest"], again["rounds"]) == (written["base_digest"], 3)
    assert alone.events("training") == []
    for name in ("model.safetensors", "node.key", "history.jsonl"):
        assert (out / name).read_bytes() == before[name]


def _is_the_base(out: Path, digest: str) -> None:
    """Returns whether model.safetensors holds the vector of this digest."""
    tensors = load_file(out / "model.safetensors")
    names = ["layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias"]
    assert sorted(names) == sorted(tensors)
    vector = np.concatenate([tensors[name].ravel() for name in names])
    generation = msgpack.unpackb(fact(out, "base"))[0]
    assert base_digest(fact(out, "parameters"), generation, vector).hex() == digest
    assert load_file(out / "private.safetensors").keys() == tensors.keys()


def test_the_plain_command_line_prints_plain_lines(nursery: Nursery, tmp_path: Path) -> None:
    """As in the first lines of --help: three terminals, no --listen, no --out."""
    peers = ",".join(free_endpoint() for _ in range(3))
    nodes = [
        nursery.plain(
            "node",
            *("--peers", peers, "--shard", f"{number}/3", "--rounds", "2", *settings(*SMALL)),
            cwd=tmp_path,
        )
        for number in range(3)
    ]
    for node in nodes:
        assert node.status() == 0, node.told()
        lines = node.out.all()
        assert node.err.all() == []
        assert [line.partition(":")[0] for line in lines[:8]] == [
            *("starting", "node", "task", "data", "may join", "links", "sums", "privacy")
        ]
        assert not any("\x1b" in line or line.startswith("{") for line in lines)
        assert any(line.startswith("round 2/2: aggregated with 3 peers; test accuracy") for line in lines)
        assert lines[-1].startswith("finished after round 2: 2 aggregated, 0 on its own; test accuracy")
    outs = list((tmp_path / "runs").iterdir())
    assert len(outs) == 3
    assert len({summary(out)["base_digest"] for out in outs}) == 1


def test_a_terminal_shows_the_live_view(nursery: Nursery, tmp_path: Path) -> None:
    """One node that nobody joins: the view shows what it waits for, and the outcome."""
    master, slave = pty.openpty()
    endpoint = free_endpoint()
    node = nursery.terminal(
        *("--peers", endpoint, "--shard", "0/3", "--rounds", "1", "--out", str(tmp_path / "out")),
        *settings(*SMALL, "aggregation.group_timeout_s=1"),
        cwd=tmp_path,
        master=master,
        slave=slave,
    )
    assert node.status() == 0, node.told()
    node.out.join()
    shown = "\n".join(node.out.all())
    assert "\x1b[" in shown
    for text in ("looking for a group", "at most", "round", "own: group-timeout", "finished after round 1"):
        assert text in shown, shown
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["fallbacks"] == 1
