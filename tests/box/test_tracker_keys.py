"""A tracker is identified by its key, which nodes pin or remember."""

from __future__ import annotations

import pytest

from protocol.crypto.node_key import NodeKey
from tests.box.box import Box

OTHER = NodeKey(bytes(range(32)))


def replace_tracker(box: Box) -> tuple[str, str]:
    """Kills the tracker, and starts one with another key in its place; returns both keys."""
    tracker = box.tracker
    assert tracker is not None
    key = tracker.key.public.hex()
    tracker.kill()
    box.run(lambda: tracker.is_over)
    tracker.key = OTHER
    tracker.start()
    return key, OTHER.public.hex()


@pytest.mark.parametrize(("tls", "pinned"), [("auto", False), ("on", True)])
def test_another_tracker_in_the_place_of_the_first_ends_every_node(make_box, tls: str, pinned: bool) -> None:
    box = make_box(3, 1000, options=("--tls", tls))
    tracker = box.with_tracker("--tls", tls)
    where = tracker.endpoint
    box.start_all(*(["--tracker", f"{tracker.key.public.hex()}@{where}"] if pinned else []))
    box.run(lambda: all(node.has_aggregated(2) for node in box.nodes))
    kept = [node.folder / "tracker.pub" for node in box.nodes]
    assert [file.exists() for file in kept] == [not pinned] * 3
    key, came = replace_tracker(box)
    box.run_to_the_end()
    for node, file in zip(box.nodes, kept, strict=True):
        line = node.lines[-1]
        assert node.status == 2
        assert line.startswith(f"error: the tracker at {where} is another one than before: ")
        assert f"the key {came[:16]}" in line
        assert f"not {key[:16]}" in line
        assert line.endswith("correct the KEY of --tracker" if pinned else f"delete {file}")


def test_a_node_that_comes_back_knows_the_tracker(make_box) -> None:
    box = make_box(3, 3)
    where = box.with_tracker().endpoint
    box.start_all()
    box.run_to_the_end()
    key, _ = replace_tracker(box)
    node = box.nodes[0]
    file = node.folder / "tracker.pub"
    assert file.read_text() == f"{key}@{where}\n"
    node.start("--rounds", "9")
    box.run_to_the_end()
    assert node.status == 2
    assert f", not {key}; find out who answers there" in node.lines[-1]
    assert node.lines[-1].endswith(f"delete {file}")
