"""Where a node trains: only where there is something to train on, and on its share of the cores."""

from __future__ import annotations

import os

import pytest
import torch

from node.config import canonical_parameters, load_task
from node.devices import find_device, thread_count, usable_cores
from node.errors import ConfigError

HERE = [f"127.0.0.1:{port}" for port in (1, 2, 3)]
LAN = ["10.0.0.5:9001", "10.0.0.5:9002", "10.0.0.7:9001"]


def test_the_cpu_is_always_there():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("asked", ["mps", "cuda:99"])
def test_a_device_that_is_not_there_is_one_line(asked):
    if asked == "mps" and torch.backends.mps.is_available():
        pytest.skip("it is there")
    with pytest.raises(ConfigError) as caught:
        find_device(asked)
    told = str(caught.value)
    assert told.startswith(f"train.device = '{asked}' is not there: torch {torch.__version__} finds ")
    assert "'cpu'; set one of them, or 'auto' for '" in told


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="more than a CPU")
def test_with_a_cpu_alone():
    assert find_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError) as caught:
        find_device("cuda")
    assert str(caught.value) == (
        f"train.device = 'cuda' is not there: torch {torch.__version__} finds 'cpu'; set one of them, or "
        "'auto' for 'cpu'"
    )


def test_a_device_is_nobody_elses_business():
    plain = load_task("digits", [])
    own = load_task("digits", ["train.device=auto", "train.threads=3", 'train.metrics=["auc"]'])
    assert canonical_parameters(plain, [], 4.0) == canonical_parameters(own, [], 4.0)


@pytest.mark.parametrize(
    ("asked", "listen", "peers", "tracker", "share"),
    [
        (5, None, HERE, None, 5),
        (None, None, HERE, None, "a third"),
        (None, "127.0.0.1:1", HERE, None, "a third"),
        (None, "10.0.0.5:9001", LAN, None, "a half"),
        (None, "10.0.0.7:9001", LAN, None, "all"),
        (None, None, [], "127.0.0.1:9000", 1),
        (None, None, [], "localhost:9000", 1),
        (None, "10.0.0.5:9001", [], "10.0.0.7:9000", "all"),
        (None, None, [f"127.0.0.1:{port}" for port in range(1, 65)], None, "a 64th"),
    ],
)
def test_torch_gets_this_nodes_share_of_the_cores(asked, listen, peers, tracker, share):
    parts = {"all": 1, "a half": 2, "a third": 3, "a 64th": 64}
    expected = max(1, usable_cores() // parts[share]) if isinstance(share, str) else share
    assert thread_count(asked, listen, peers, tracker) == expected


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_cores_that_were_taken_away_do_not_count():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cores() == 1
        assert thread_count(None, None, HERE, None) == 1
    finally:
        os.sched_setaffinity(0, before)
