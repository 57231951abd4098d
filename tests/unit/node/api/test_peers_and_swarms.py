"""Programs and notebooks with peers and swarms: real sockets, in this process."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

from node import ConfigError, Peer, Swarm, UserError, load_task
from node.data.dataset import load_dataset
from tests.e2e.processes import free_endpoint

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


def test_a_local_swarm_learns_from_a_data_frame_with_labels_in_words():
    x, side = rows(0)
    frame = pa.table({"left": x[:, 0], "right": x[:, 1], "side": np.where(side, "above", "below")})
    results = Swarm.local(3, PAIRS, frame, rounds=2, alone=60).run()
    assert results.agreed
    assert results.accuracy is not None
    assert results.accuracy > 0.5
    assert all(summary.alone is not None for summary in results.summaries)


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


async def test_a_swarm_runs_inside_a_running_loop_awaited_or_not_on_rows_for_each_or_divided(tmp_path):
    x, y = rows(0)
    np.savez(tmp_path / "all.npz", x=x, y=y)
    awaited = await Swarm.local(3, PAIRS, [rows(1), rows(2), rows(3)]).run_async()
    blocking = Swarm.local(3, PAIRS, tmp_path / "all.npz", out=tmp_path / "kept").run()

    assert (awaited.agreed, blocking.agreed) == (True, True)
    measured = [{summary.accuracy_of for summary in one.summaries} for one in (awaited, blocking)]
    assert measured == [{"validation"}, {"test"}]
    assert (tmp_path / "kept" / "2" / "summary.json").exists()


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
async def test_leaving_the_loop_ends_all_peers_and_there_are_results(error):
    swarm = Swarm.local(3, {**PAIRS, "train": {"rounds": 100000}}, [rows(1), rows(2), rows(3)])

    async def look():
        async with swarm:
            async for number, record in swarm.rounds():
                assert (number in range(3), record.round) == (True, 1)
                if error:
                    raise error
                break

    with pytest.raises(error) if error else nullcontext():
        await look()

    assert not any(summary.finished for summary in swarm.results.summaries)
    assert all(summary.rounds < 100000 for summary in swarm.results.summaries)


def test_a_peer_that_can_not_begin_ends_the_others(tmp_path):
    bad = np.full((100, 3), 0.5), rows(0)[1]

    before = sockets()
    swarm = Swarm.local(3, PAIRS, [rows(1), rows(2), bad])
    with pytest.raises(ConfigError, match=r"^model node\.models:Linear does not take rows of 3 features"):
        swarm.run()
    assert sockets() == before


# -- a peer ----------------------------------------------------------------------------------------


async def test_peers_of_three_parties_learn_give_their_model_and_go_on_in_their_folders(tmp_path):
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
    again = hospitals(tmp_path, rounds=3)
    await asyncio.gather(*(peer.run_async() for peer in again))
    assert [record.round for record in again[0].records] == [3]
    assert again[0].summary.rounds == 3


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


async def test_what_only_data_shows_is_raised_where_somebody_waits(tmp_path):
    peer = Peer("digits", tmp_path / "none.csv", peers=[free_endpoint()])

    with pytest.raises(ConfigError, match=r"^data file '.*cannot be read: No such file or directory$"):
        await peer.run_async()
    with pytest.raises(ConfigError, match=r"^data file"):
        peer.run()
