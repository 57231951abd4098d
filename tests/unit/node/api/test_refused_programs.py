"""What programs and notebooks are told of what cannot be, and what importing the package gives them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import node
from node import ConfigError, Peer, Swarm, UserError

ROOT = Path(__file__).parents[4]
ROWS = np.zeros((100, 2)), np.arange(100) % 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Swarm.local(2, "digits"), "a swarm of 2 peers is refused; allowed: 3 (aggregation.min_part"),
        (lambda: Swarm.local(65, "digits"), "a swarm of 65 peers is refused; allowed: 3 (aggregation.min_pa"),
        (
            lambda: Swarm.local(3, "digits", [ROWS]),
            "data is a list of 1 for 3 peers; allowed: one for each",
        ),
        (lambda: Swarm.local(3, "digit"), "task 'digit' is not known; allowed: digits, or a FILE.toml"),
        (lambda: Swarm.local(3, 7), "task = 7 is refused; allowed: a name, a FILE.toml, a table, a Task"),
        (lambda: Swarm.local(3, {"task": {"name": "a b"}}), "task.name = 'a b' is refused; allowed: letters"),
        (lambda: Peer("digits"), "neither is given: --peers HOST:PORT,... or --tracker KEY@URL"),
        (lambda: Peer("digits", peers=["10.0.0.5:1"]), "--peers '10.0.0.5:1' is not on this machine, so say"),
        (lambda: Peer("digits", (1, 2), peers=["[::1]:9"]), "data: x is () and y is (); allowed: shapes"),
    ],
)
def test_what_can_not_be_is_said_when_it_is_made(make, text):
    with pytest.raises(ConfigError) as raised:
        make()

    assert str(raised.value).startswith(text)
    assert (raised.value.status, str(raised.value).count("\n")) == (2, 0)


def test_whoever_was_never_started_says_so(tmp_path):
    peer = Peer("digits", ROWS, peers=["127.0.0.1:1"], out=tmp_path / "out")
    peer.close()

    with pytest.raises(UserError, match=r"^the node has not begun: run\(\) or rounds\(\) starts it$"):
        _ = peer.summary
    with pytest.raises(UserError, match=r"^the swarm has not begun: run\(\) or rounds\(\) starts it$"):
        _ = Swarm.local(3, "digits").results
    assert not list(tmp_path.iterdir())


def test_importing_the_package_loads_nothing_else():
    code = "import sys; before = set(sys.modules); import node; print(sorted(set(sys.modules) - before))"
    said = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)

    heavy = {"torch", "numpy", "aiohttp", "asyncio", "node.task.sections", "node.task.load", "node.api.peer"}
    assert "'node'" in said
    assert not [name for name in heavy if f"'{name}'" in said]


def test_every_public_name_is_there_and_no_other_is():
    assert all(getattr(node, name).__name__ == name for name in node.__all__)
    with pytest.raises(
        AttributeError, match=r"^module 'node' has no attribute 'Pear'; it has ConfigError, Learner"
    ):
        _ = node.Pear
    assert Path(node.__file__).is_relative_to(ROOT)
