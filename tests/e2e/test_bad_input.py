"""User errors: one line on standard error, the right exit status, and no half-written files."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from node.__main__ import main
from protocol.crypto.node_key import NodeKey
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.e2e.swarm import SMALL, Swarm, one_digest, settings, status, wait_status, write_key
from tests.run_folders import history

TASK = """
[task]
name = "ward"
[model]
class = "node.models:Linear"
args = { inputs = 2, outputs = 2 }
"""
SEED_A, SEED_B = sorted((bytes([1]) * 32, bytes([2]) * 32), key=lambda seed: NodeKey(seed).public)
KEY_A, KEY_B = (NodeKey(seed).public.hex() for seed in (SEED_A, SEED_B))


@dataclass(frozen=True)
class Wrong:
    """Arguments after `--peers`, files beside them, and words that the line must contain."""

    name: str
    argv: tuple[str, ...]
    words: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()
    shard: bool = True


WRONG = [
    Wrong("unknown task", ("--task", "digts"), ("'digts'", "not known", "digits")),
    Wrong("unreadable data", ("--data", "no.csv"), ("no.csv", "cannot be read"), shard=False),
    Wrong("empty data", ("--data", "a.csv"), ("data file", "is empty"), (("a.csv", ""),), shard=False),
    Wrong("no rows", ("--data", "a.csv"), ("has 0 rows",), (("a.csv", "x,y\n"),), shard=False),
    Wrong("no such key", ("--set", "train.epoch=1"), ("train.epoch", "epochs")),
    Wrong("wrong type", ("--set", "train.epochs=many"), ("train.epochs", "'many'", "whole number")),
    Wrong(
        "TOML key",
        ("--task", "t.toml"),
        ("train.epoch", "epochs"),
        (("t.toml", TASK + "[train]\nepoch = 1"),),
    ),
    Wrong(
        "TOML type",
        ("--task", "t.toml"),
        ("train.epochs", "true"),
        (("t.toml", TASK + "[train]\nepochs = true"),),
    ),
    Wrong("no TOML", ("--task", "t.toml"), ("task file", "not valid TOML"), (("t.toml", "[task"),)),
    Wrong("two participants", ("--set", "aggregation.min_participants=2"), ("min_participants", "2", "3")),
    Wrong("off loopback", ("--listen", "192.0.2.1:1"), ("192.0.2.1:1", "--allow", "--open")),
    Wrong("empty allow-list", ("--allow", "list"), ("list", "names no key"), (("list", "# nobody\n"),)),
    Wrong("no shard", (), ("--shard",), shard=False),
    Wrong("no such option", ("--frobnicate",), ("--frobnicate",)),
]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Returns a function that calls the command: it ends with status 2 and one line, which it returns."""

    def call(*argv: str) -> str:
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert (err[:7], err.count("\n")) == ("error: ", 1)
        assert not [said for said in out.splitlines() if not said.startswith("starting: ")]
        return err

    return call


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_one_line_and_status_2(refused: Callable[..., str], tmp_path: Path, wrong: Wrong) -> None:
    for name, text in wrong.files:
        (tmp_path / name).write_text(text)
    out = tmp_path / "out"
    names = {name for name, _ in wrong.files}
    argv = [str(tmp_path / part) if part in names else part for part in wrong.argv]
    shard = ["--shard", "0/3"] if wrong.shard else []
    line = refused("--peers", free_endpoint(), "--out", str(out), *shard, *argv)
    assert all(word in line for word in wrong.words), line
    assert not out.exists()


def test_the_plain_command_line_fails_the_same_way(nursery: Nursery, tmp_path: Path) -> None:
    node = nursery.plain("node", "--peers", "127.0.0.1:9001", "--task", "digts", cwd=tmp_path)
    assert "'digts'" in node.fails(2)
    tracker = nursery.plain("node.tracker", "--listen", "192.0.2.1:9001", cwd=tmp_path)
    assert "--allow" in tracker.fails(2)
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_does_not_exist(refused: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    peers = "no-such-host.invalid:9001"
    line = refused("--peers", peers, "--open", "--shard", "0/3", "--out", str(out))
    assert "--peers" in line
    assert "no-such-host.invalid" in line
    assert not out.exists()


def only_the_key_is_left(out: Path) -> None:
    """Checks that only the key is left: others may have it on their lists, so a failed start keeps it."""
    assert [path.name for path in out.iterdir()] == ["node.key"]


def test_a_model_that_is_too_long_for_so_many_peers(refused: Callable[..., str], tmp_path: Path) -> None:
    """Refused before anything is sent: after one member fell silent, the others could not continue."""
    out, task, rows = tmp_path / "out", tmp_path / "t.toml", tmp_path / "a.csv"
    task.write_text(TASK.replace("outputs = 2", "outputs = 12_000_000"))
    rows.write_text("x,y,z\n" + "1,2,0\n2,1,1\n" * 5)
    peers = ",".join(free_endpoint() for _ in range(64))
    line = refused("--peers", peers, "--task", str(task), "--data", str(rows), "--out", str(out))
    assert "36000000 parameters are too many for masked sums of 64 peers; allowed: at most 33554431" in line
    only_the_key_is_left(out)


# -- one node that waits for others, and a second one beside it ----------------------------------------


def alone(nursery: Nursery, folder: Path, *more: str) -> tuple[Process, str]:
    """A node with key A that waits for a group, and its endpoint."""
    endpoint = free_endpoint()
    write_key(folder / "a" / "node.key", SEED_A)
    node = nursery.fork(
        *("--peers", endpoint, "--listen", endpoint, "--shard", "0/3", "--out", str(folder / "a"), "--json"),
        *("--rounds", "1", *settings(*SMALL), *more),
    )
    node.event("training")
    wait_status(endpoint, lambda said: said["phase"] == "group")
    return node, endpoint


def second(nursery: Nursery, folder: Path, peers: str, *more: str) -> Process:
    """Starts a node without a key that wants to join; its folder is b."""
    return nursery.fork(
        *("--peers", peers, "--listen", free_endpoint(), "--shard", "1/3", "--out", str(folder / "b")),
        *("--rounds", "1", *settings(*SMALL), *more),
    )


def goes_on(node: Process, endpoint: str) -> None:
    """Checks that a node runs, answers, and can be stopped."""
    assert status(endpoint)["phase"] in {"group", "idle"}
    node.send(signal.SIGINT)
    assert node.status() == 130
    assert node.err.all() == []


def test_a_port_in_use(nursery: Nursery, tmp_path: Path) -> None:
    node, endpoint = alone(nursery, tmp_path)
    other = nursery.fork(
        *("--peers", endpoint, "--listen", endpoint, "--shard", "1/3", "--out", str(tmp_path / "b"))
    )
    line = other.fails(1)
    assert endpoint in line
    assert "in use" in line
    assert not (tmp_path / "b").exists()
    tracker = nursery.tracker("--listen", endpoint)
    assert "in use" in tracker.fails(1)
    goes_on(node, endpoint)


def test_an_out_in_use(nursery: Nursery, tmp_path: Path) -> None:
    node, endpoint = alone(nursery, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    other = nursery.fork(
        *("--peers", endpoint, "--listen", free_endpoint(), "--shard", "1/3", "--out", str(tmp_path / "a"))
    )
    line = other.fails(1)
    assert "is in use by another node" in line
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()} == before
    goes_on(node, endpoint)


def test_two_peers_with_the_same_key(nursery: Nursery, tmp_path: Path) -> None:
    node, endpoint = alone(nursery, tmp_path)
    line = second(nursery, tmp_path, endpoint, "--key", str(tmp_path / "a" / "node.key")).fails(2)
    assert endpoint in line
    assert KEY_A[:16] in line
    assert "--key" in line
    assert not (tmp_path / "b").exists()
    goes_on(node, endpoint)


def test_two_parameter_sets_in_one_swarm(nursery: Nursery, tmp_path: Path) -> None:
    node, endpoint = alone(nursery, tmp_path)
    line = second(nursery, tmp_path, endpoint, "--set", "train.learning_rate=0.05").fails(2)
    assert endpoint in line
    assert "train.learning_rate is 0.05 here and 0.1 there" in line
    only_the_key_is_left(tmp_path / "b")
    told = node.line("is in another swarm")
    assert "train.learning_rate is 0.1 here and 0.05 there" in told
    goes_on(node, endpoint)


def test_two_tasks_in_one_swarm(nursery: Nursery, tmp_path: Path) -> None:
    node, endpoint = alone(nursery, tmp_path)
    line = second(nursery, tmp_path, endpoint, "--set", "task.name=letters").fails(2)
    assert 'task.name is "letters" here and "digits" there' in line
    only_the_key_is_left(tmp_path / "b")
    assert 'task.name is "digits" here and "letters" there' in node.line("is in another swarm")
    goes_on(node, endpoint)


def test_a_key_that_is_not_on_the_others_allow_list(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(KEY_A + "\n")
    node, endpoint = alone(nursery, tmp_path, "--allow", str(tmp_path / "list"))
    write_key(tmp_path / "key", SEED_B)
    line = second(nursery, tmp_path, endpoint, "--key", str(tmp_path / "key")).fails(2)
    assert f"{endpoint} refuses this node" in line
    assert KEY_B in line
    assert "allow-list" in line
    assert not (tmp_path / "b").exists()
    assert KEY_B in node.line("is not let in")
    goes_on(node, endpoint)


def test_a_key_that_is_not_on_ones_own_allow_list(nursery: Nursery, tmp_path: Path) -> None:
    node, endpoint = alone(nursery, tmp_path)
    write_key(tmp_path / "key", SEED_B)
    (tmp_path / "list").write_text(KEY_B + "\n")
    more = ("--key", str(tmp_path / "key"), "--allow", str(tmp_path / "list"))
    line = second(nursery, tmp_path, endpoint, *more).fails(2)
    assert endpoint in line
    assert KEY_A in line
    assert "allow-list" in line
    assert not (tmp_path / "b").exists()
    goes_on(node, endpoint)


def test_a_key_that_is_not_on_the_trackers_allow_list(nursery: Nursery, tmp_path: Path) -> None:
    where = free_endpoint()
    (tmp_path / "list").write_text(KEY_A + "\n")
    tracker = nursery.tracker("--listen", where, "--allow", str(tmp_path / "list"))
    tracker.line("at http://")
    node = nursery.fork("--tracker", where, "--shard", "0/3", "--out", str(tmp_path / "b"))
    line = node.fails(2)
    assert where in line
    assert "allow-list" in line
    only_the_key_is_left(tmp_path / "b")


def test_a_pinned_key_that_does_not_match(nursery: Nursery, tmp_path: Path) -> None:
    node, endpoint = alone(nursery, tmp_path)
    line = second(nursery, tmp_path, f"{KEY_B}@{endpoint}").fails(2)
    assert endpoint in line
    assert KEY_A in line
    assert "pinned" in line
    only_the_key_is_left(tmp_path / "b")
    goes_on(node, endpoint)


def test_an_out_of_another_task(nursery: Nursery, tmp_path: Path) -> None:
    endpoint, out = free_endpoint(), tmp_path / "out"
    argv = ("--peers", endpoint, "--shard", "0/3", "--rounds", "1", "--out", str(out))
    quick = settings(*SMALL, "aggregation.group_timeout_s=0.5")
    assert nursery.fork(*argv, *quick).status() == 0
    before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    others = {"task.name=letters": "holds task 'digits'", "train.momentum=0.5": "other parameters"}
    for override, word in others.items():
        line = nursery.fork(*argv, *quick, "--set", override).fails(2)
        assert str(out) in line
        assert word in line
    assert {path: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_a_key_file_that_others_can_read(refused: Callable[..., str], tmp_path: Path) -> None:
    key, out = tmp_path / "key", tmp_path / "out"
    write_key(key, SEED_A)
    key.chmod(0o644)
    argv = ("--peers", free_endpoint(), "--shard", "0/3", "--out", str(out), "--key", str(key))
    line = refused(*argv)
    assert f"chmod 600 {key}" in line
    assert not out.exists()


# -- nobody there --------------------------------------------------------------------------------------


def test_peers_and_trackers_that_can_not_be_reached(nursery: Nursery, tmp_path: Path) -> None:
    """One line for each once the time to join is over; the nodes train on alone and end well."""
    mine, other, another, tracker = (free_endpoint() for _ in range(4))
    names = {"peers": f"{mine},{other},{another}", "tracker": tracker}
    nodes = {
        name: nursery.fork(
            *(f"--{name}", where, "--shard", "0/3", "--rounds", "2", "--out", str(tmp_path / name), "--json"),
            *settings(*SMALL, "aggregation.group_timeout_s=3"),
        )
        for name, where in names.items()
    }
    for name, gone in (("peers", (other, another)), ("tracker", (tracker,))):
        end = nodes[name].ends_well()
        assert (end["aggregated"], end["fallbacks"], end["finished"], end["offers"]) == (0, 2, True, 0)
        assert {line["reason"] for line in history(tmp_path / name)} == {"group-timeout"}
        told = [event["text"] for event in nodes[name].events("notice")]
        waiting = [text for text in told if text.startswith("waiting for ")]
        assert len(waiting) == 1, "and one line says why no model is made"
        assert sorted(set(told) - set(waiting)) == sorted(
            f"{endpoint} cannot be reached (connection refused); trying again" for endpoint in gone
        )


def test_a_swarm_goes_on_beside_an_address_where_nobody_is(make_swarm) -> None:
    swarm: Swarm = make_swarm(4, 3)
    nodes = [swarm.start(number) for number in range(3)]
    ends = [node.ends_well() for node in nodes]
    one_digest(ends)
    assert all(end["aggregated"] == 3 for end in ends)
    for node in nodes:
        assert node.line(f"{swarm.endpoints[3]} cannot be reached (connection refused)")
