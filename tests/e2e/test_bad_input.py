"""User errors that only real processes meet: one line on standard error, its status, no half-written files.

All other bad arguments: tests/unit/node/test_refusals.py and test_options.py.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from protocol.crypto.node_key import NodeKey
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.e2e.swarm import SMALL, settings, status, wait_status, write_key
from tests.run_folders import history, summary

SEED_A, SEED_B = sorted((bytes([1]) * 32, bytes([2]) * 32), key=lambda seed: NodeKey(seed).public)
KEY_A, KEY_B = (NodeKey(seed).public.hex() for seed in (SEED_A, SEED_B))


@dataclass(frozen=True)
class Second:
    """A node that wants to join one that waits with key A.

    `argv` and `words`, which its one line contains, may name the other's {endpoint} and the {folder}. `told`:
    what the one that waits says.
    """

    argv: tuple[str, ...]
    words: tuple[str, ...]
    told: str = ""
    status: int = 2
    peers: str = "{endpoint}"


OTHER_RATE, OTHER_TASK = "train.learning_rate is {}", "task.name is {}"
SECONDS = {
    "port": Second(("--listen", "{endpoint}"), ("{endpoint}", "in use"), status=1),
    "out": Second(("--out", "{folder}/a"), ("{folder}/a is in use by another node",), status=1),
    "same-file": Second(
        ("--key", "{folder}/a/node.key"), ("/a/node.key is in use by another node",), status=1
    ),
    "same-key": Second(("--key", "{folder}/copy"), ("{endpoint}", KEY_A[:16], "--key")),
    "parameters": Second(
        ("--set", "train.learning_rate=0.05"),
        ("{endpoint}", OTHER_RATE.format("0.05 here and 0.1 there")),
        OTHER_RATE.format("0.1 here and 0.05 there"),
    ),
    "task": Second(
        ("--set", "task.name=letters"),
        (OTHER_TASK.format('"letters" here and "digits" there'),),
        OTHER_TASK.format('"digits" here and "letters" there'),
    ),
    "not-on-the-other's-list": Second(
        ("--key", "{folder}/key"),
        ("{endpoint} refuses this node", KEY_B, "allow-list"),
        told=f"is not let in: key {KEY_B} is not on the allow-list",
    ),
    "not-on-its-own-list": Second(("--allow", "{folder}/theirs"), ("{endpoint}", KEY_A, "allow-list")),
    "pinned": Second((), ("{endpoint}", KEY_A, "pinned"), peers=f"{KEY_B}@{{endpoint}}"),
}


def test_the_plain_command_line_fails_as_a_call_does(nursery: Nursery, tmp_path: Path) -> None:
    node = nursery.plain("node", "--peers", "127.0.0.1:9001", "--task", "digts", cwd=tmp_path)
    assert "'digts'" in node.fails(2)
    tracker = nursery.plain("node.tracker", "--listen", "192.0.2.1:9001", cwd=tmp_path)
    assert "--allow" in tracker.fails(2)
    assert list(tmp_path.iterdir()) == []


def waiting(nursery: Nursery, folder: Path) -> tuple[Process, str]:
    """Starts a node with key A that waits for a group, lets in all but key B, and returns its endpoint."""
    endpoint = free_endpoint()
    write_key(folder / "a" / "node.key", SEED_A)
    listed = [KEY_A]
    for number, name in enumerate(SECONDS, 10):
        write_key(folder / "keys" / name, bytes([number]) * 32)
        listed.append(NodeKey(bytes([number]) * 32).public.hex())
    (folder / "list").write_text("\n".join(listed))
    node = nursery.fork(
        *("--peers", endpoint, "--listen", endpoint, "--shard", "0/3", "--out", str(folder / "a"), "--json"),
        *("--rounds", "1", "--wait", "forever", *settings(*SMALL), "--allow", str(folder / "list")),
    )
    node.event("training")
    wait_status(endpoint, lambda said: said["phase"] == "group")
    return node, endpoint


def test_whoever_can_not_join_is_told_why_in_one_line_and_the_other_goes_on(
    nursery: Nursery, tmp_path: Path
) -> None:
    node, endpoint = waiting(nursery, tmp_path)
    write_key(tmp_path / "key", SEED_B)
    write_key(tmp_path / "copy", SEED_A)
    (tmp_path / "theirs").write_text(KEY_B + "\n")

    def filled(*texts: str) -> list[str]:
        return [text.replace("{endpoint}", endpoint).replace("{folder}", str(tmp_path)) for text in texts]

    usual = ("--shard", "1/3", "--rounds", "1", *settings(*SMALL))
    refused = {
        name: nursery.fork(
            *filled("--peers", one.peers, "--listen", free_endpoint(), "--out", f"{{folder}}/{name}"),
            *filled("--key", f"{{folder}}/keys/{name}", *usual, *one.argv),
        )
        for name, one in SECONDS.items()
    }
    for name, one in SECONDS.items():
        line = refused[name].fails(one.status)
        assert not [word for word in filled(*one.words) if word not in line], (name, line)
        assert one.told in node.line(one.told)
        assert not (tmp_path / name).exists()
    tracker = nursery.tracker("--listen", endpoint)
    assert "in use" in tracker.fails(1)
    assert status(endpoint)["phase"] in {"group", "idle"}
    node.send(signal.SIGINT)
    assert node.status() == 130
    assert node.err.all() == []


def test_peers_and_trackers_that_can_not_be_reached_or_refuse_a_key(nursery: Nursery, tmp_path: Path) -> None:
    """One line for each once the time to join is over; the nodes train on alone and say so last."""
    mine, other, another, gone, there = (free_endpoint() for _ in range(5))
    (tmp_path / "list").write_text(KEY_A + "\n")
    nursery.tracker("--listen", there, "--allow", str(tmp_path / "list")).line("at http://")
    names = {"peers": f"{mine},{other},{another}", "tracker": gone, "refusing": there}
    nodes = {
        name: nursery.fork(
            *("--peers" if name == "peers" else "--tracker", where, "--shard", "0/3", "--rounds", "2"),
            *("--out", str(tmp_path / name), "--json", "--wait", "0"),
            *settings(*SMALL, "aggregation.group_timeout_s=3"),
        )
        for name, where in names.items()
    }
    line = nodes["refusing"].fails(2)
    assert there in line
    assert "allow-list" in line
    assert [path.name for path in (tmp_path / "refusing").iterdir()] == ["node.key"]
    for name, lost in (("peers", (other, another)), ("tracker", (gone,))):
        assert nodes[name].fails(1).startswith("error: 2 rounds alone in a row, after round 0 of 2")
        end = summary(tmp_path / name)
        assert (end["aggregated"], end["fallbacks"], end["finished"], end["offers"]) == (0, 2, False, 0)
        assert {line["reason"] for line in history(tmp_path / name)} == {"group-timeout"}
        told = [event["text"] for event in nodes[name].events("notice")]
        waits = [text for text in told if text.startswith("waiting for ")]
        assert len(waits) == 1, "and one line says why no model is made"
        assert sorted(set(told) - set(waits)) == sorted(
            f"{endpoint} cannot be reached (connection refused); trying again" for endpoint in lost
        )
