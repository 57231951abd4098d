"""Programs and notebooks with peers and swarms: real sockets, in this process."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import node
from node import ConfigError, Peer, Swarm, UserError, load_task
from node.data.dataset import load_dataset
from tests.e2e.processes import ROOT, free_endpoint

# A connection that is accepted as its node's loop ends is closed by the garbage collector, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
SMALL = ["train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]"]
DIGITS = load_task("digits", SMALL)
PAIRS = {
    "task": {"name": "pairs"},
    "model": {"class": "node.models:Linear", "args": {"inputs": 2, "outputs": 2}},
    "train": {"rounds": 2},
}


def rows(seed):
    """Makes a hundred points, labelled by their side of a line."""
    x = np.random.default_rng(seed).normal(size=(100, 2))
    return x, (x.sum(1) > 0).astype(int)


def sockets():
    """Returns this process's sockets, without those of UDP: they keep ports for tests."""
    found, keepers = [], Path("/proc/self/net/udp").read_text()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(descriptor.readlink()))
    return sorted(name for name in found if name.startswith("socket:") and f" {name[8:-1]} " not in keepers)


def torch_threads():
    """Runs in a new thread, because a thread that has used torch keeps its number of threads."""
    found = []
    asking = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    asking.start()
    asking.join()
    return found


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path, monkeypatch):
    """Checks that no thread, socket or temporary folder is left, and that torch's threads are unchanged."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    before = {thread.ident for thread in threading.enumerate()}, sockets(), torch_threads()
    yield
    after = {thread.ident for thread in threading.enumerate()}, sockets(), torch_threads()
    assert after == before
    assert not list((tmp_path / "temporary").glob("murmuration*"))


def hospitals(tmp_path, task=PAIRS, **options):
    addresses = [free_endpoint() for _ in range(3)]
    return [
        Peer(task, rows(number), peers=addresses, listen=address, out=tmp_path / str(number), **options)
        for number, address in enumerate(addresses)
    ]


# -- a swarm ---------------------------------------------------------------------------------------


def test_a_local_swarm_learns_one_model_that_is_as_good_as_it_says():
    swarm = Swarm.local(3, DIGITS, rounds=2)
    results = swarm.run()

    assert results.agreed
    parts = [run.about["data"].partition("; ")[2] for run in swarm._runs]
    assert [part.split(" has ")[0] for part in parts] == [f"part {number} of 3" for number in range(3)]
    assert [[one.outcome for one in records] for records in results.records] == [["aggregated"] * 2] * 3
    assert [summary.rounds for summary in results.summaries] == [2] * 3
    data = load_dataset(DIGITS, None, (0, 3))
    right = results.model(data.test_x).argmax(1) == data.test_y
    assert results.accuracy == results.summaries[0].accuracy == pytest.approx(float(right.float().mean()))
    assert not any(parameter.requires_grad for parameter in results.model.parameters())
    assert str(results).count("2 of 2 rounds aggregated") == 3


async def test_a_swarm_runs_inside_a_running_loop_awaited_or_not():
    awaited = await Swarm.local(3, DIGITS, rounds=1).run_async()
    blocking = Swarm.local(3, DIGITS, rounds=1).run()

    assert awaited.agreed
    assert blocking.agreed


async def test_leaving_the_loop_ends_all_peers_and_there_are_results():
    swarm = Swarm.local(3, load_task("digits", [*SMALL, "train.rounds=100000"]))
    async for number, record in swarm.rounds():
        assert (number in range(3), record.round) == (True, 1)
        break

    assert not any(summary.finished for summary in swarm.results.summaries)
    assert all(summary.rounds < 100000 for summary in swarm.results.summaries)


async def test_an_error_in_the_loop_ends_all_peers():
    swarm = Swarm.local(3, load_task("digits", [*SMALL, "train.rounds=100000"]))

    async def divide():
        async with swarm:
            async for _ in swarm.rounds():
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await divide()

    assert all(summary.rounds < 100000 for summary in swarm.results.summaries)


@pytest.mark.parametrize("kind", ["each its own", "one pair", "one file"])
def test_data_of_one_s_own_is_given_to_each_or_divided(tmp_path, kind):
    x, y = rows(0)
    np.savez(tmp_path / "all.npz", x=x, y=y)
    data = {
        "each its own": [rows(1), rows(2), rows(3)],
        "one pair": (x, y),
        "one file": tmp_path / "all.npz",
    }[kind]

    results = Swarm.local(3, PAIRS, data, out=tmp_path / "kept").run()

    assert results.agreed
    assert {summary.accuracy_of for summary in results.summaries} == {
        "validation" if kind == "each its own" else "test"
    }
    assert (tmp_path / "kept" / "2" / "summary.json").exists()


def test_a_peer_that_can_not_begin_ends_the_others(tmp_path):
    bad = np.full((100, 3), 0.5), rows(0)[1]

    before = sockets()
    swarm = Swarm.local(3, PAIRS, [rows(1), rows(2), bad])
    with pytest.raises(ConfigError, match=r"^model node\.models:Linear does not take rows of 3 features"):
        swarm.run()
    assert sockets() == before


def test_ctrl_c_ends_a_swarm_cleanly(nursery, tmp_path):
    process = nursery.module("tests.e2e.interrupted_swarm", str(tmp_path / "temporary"))
    process.line("a round is over")

    process.send(signal.SIGINT)

    assert process.line("interrupted") == "interrupted, True, left: []"
    assert process.status() == 130


# -- a peer ----------------------------------------------------------------------------------------


async def test_peers_of_three_parties_learn_and_give_their_model(tmp_path):
    peers = hospitals(tmp_path)
    seen = []

    async def watched(peer):
        async for record in peer.rounds():
            seen.append(record.round)
            assert peer.records[-1] == record

    await asyncio.gather(watched(peers[0]), *(peer.run_async() for peer in peers[1:]))

    assert seen == [1, 2]
    assert {peer.summary.base_digest for peer in peers} == {peers[0].summary.base_digest}
    assert peers[1].out == tmp_path / "1"
    assert peers[1].lines[-1].startswith("finished after round 2")
    stored = load_file(tmp_path / "2" / "model.safetensors")
    assert {name: value.tolist() for name, value in stored.items()} == {
        name: value.tolist() for name, value in peers[2].model.named_parameters()
    }


async def test_a_peer_goes_on_in_its_folder_where_it_stopped(tmp_path):
    await asyncio.gather(*(peer.run_async() for peer in hospitals(tmp_path, rounds=1)))
    peers = hospitals(tmp_path)
    await asyncio.gather(*(peer.run_async() for peer in peers))

    assert [record.round for record in peers[0].records] == [2]
    assert peers[0].summary.rounds == 2


async def test_a_stopped_peer_has_a_summary_at_once_and_the_loop_ends(tmp_path):
    """It is alone, and would wait for the others for a long time."""
    peer = hospitals(tmp_path)[0]
    rounds = peer.rounds()
    waiting = asyncio.ensure_future(anext(rounds))
    while not peer.lines:  # noqa: ASYNC110 - a thread says them
        await asyncio.sleep(0)
    with pytest.raises(UserError, match=r"^the node still learns: let rounds\(\) come to its end, or call"):
        _ = peer.model
    peer.stop()

    assert (peer.summary.rounds, peer.summary.finished) == (0, False)
    with pytest.raises(StopAsyncIteration):
        await waiting


def test_a_peer_that_was_never_started_says_so(tmp_path):
    peer = hospitals(tmp_path)[0]
    peer.close()

    with pytest.raises(UserError, match=r"^the node has not begun: run\(\) or rounds\(\) starts it$"):
        _ = peer.summary
    with pytest.raises(UserError, match=r"^the swarm has not begun: run\(\) or rounds\(\) starts it$"):
        _ = Swarm.local(3, DIGITS).results
    assert not list(tmp_path.glob("[0-9]"))


# -- what is said of what cannot be ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Swarm.local(2, "digits"), "a swarm of 2 peers is refused; allowed: 3 (aggregation.min_part"),
        (lambda: Swarm.local(65, "digits"), "a swarm of 65 peers is refused; allowed: 3 (aggregation.min_pa"),
        (
            lambda: Swarm.local(3, "digits", [rows(0)]),
            "data is a list of 1 for 3 peers; allowed: one for each",
        ),
        (lambda: Swarm.local(3, "digit"), "task 'digit' is not known; allowed: digits, or a FILE.toml"),
        (lambda: Swarm.local(3, 7), "task = 7 is refused; allowed: a name, a FILE.toml, a table, a Task"),
        (
            lambda: Swarm.local(3, "digits", rounds=0),
            "--rounds '0' is refused; allowed: a whole number from 1",
        ),
        (lambda: Swarm.local(3, {"task": {"name": "a b"}}), "task.name = 'a b' is refused; allowed: letters"),
        (lambda: Peer("digits"), "neither is given: --peers HOST:PORT,... or --tracker KEY@URL"),
        (lambda: Peer("digits", peers=["here"]), "--peers 'here' is refused; allowed: HOST:PORT"),
        (lambda: Peer("digits", peers=["10.0.0.5:1"]), "--peers '10.0.0.5:1' is not on this machine, so say"),
        (
            lambda: Peer("digits", "a.csv", peers=["[::1]:9"], shard=(0, 3)),
            "--data 'a.csv' and --shard contra",
        ),
        (lambda: Peer("digits", (1, 2), peers=["[::1]:9"]), "data: x is () and y is (); allowed: shapes"),
    ],
)
def test_what_can_not_be_is_said_when_it_is_made(make, text):
    with pytest.raises(ConfigError) as raised:
        make()

    assert str(raised.value).startswith(text)
    assert (raised.value.status, str(raised.value).count("\n")) == (2, 0)


async def test_what_only_data_shows_is_raised_where_somebody_waits(tmp_path):
    peer = Peer("digits", tmp_path / "none.csv", peers=[free_endpoint()])

    with pytest.raises(ConfigError, match=r"^data file '.*cannot be read: No such file or directory$"):
        await peer.run_async()
    with pytest.raises(ConfigError, match=r"^data file"):
        peer.run()


# -- the package -----------------------------------------------------------------------------------


def test_importing_the_package_loads_nothing_else():
    code = "import sys; before = set(sys.modules); import node; print(sorted(set(sys.modules) - before))"
    said = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)

    heavy = {"torch", "numpy", "aiohttp", "asyncio", "node.task.sections", "node.task.load", "node.api.peer"}
    assert "'node'" in said
    assert not [name for name in heavy if f"'{name}'" in said]


def test_every_public_name_is_there_and_no_other_is():
    assert all(getattr(node, name).__name__ == name for name in node.__all__)
    with pytest.raises(
        AttributeError, match=r"^module 'node' has no attribute 'Pear'; it has ConfigError, Peer"
    ):
        _ = node.Pear
    assert Path(node.__file__).is_relative_to(ROOT)
