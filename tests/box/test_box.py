"""What the box promises: a seed gives one trace, time is a value, and nothing of a node outlives it."""

from __future__ import annotations

import gc
import weakref

import pytest

from node.runtime.engine import Engine
from tests.box.box import Box


@pytest.mark.sampled("additive-off")
@pytest.mark.parametrize(("protocol", "tls"), [("additive", "off"), ("masked", "on")])
def test_two_runs_of_a_seed_give_one_trace(make_box, protocol: str, tls: str) -> None:
    def run() -> Box:
        box = make_box(4, 9, f"aggregation.protocol={protocol}", seed=7, options=("--tls", tls))
        box.start_all()
        box.at(0.3, lambda: box.nodes[2].kill(power=True))
        box.at(0.5, box.nodes[2].start)
        box.run_to_the_end()
        assert [box.nodes[number].status for number in (0, 1, 3)] == [0] * 3
        return box

    one, other = run(), run()
    assert one.trace == other.trace


def test_a_long_wait_takes_no_time(make_box) -> None:
    """Nobody else ever comes: each round waits for its 120 s, and falls back."""
    box = make_box(3, 3)
    begun_s = box.loop.time()
    box.nodes[0].start()
    box.run_to_the_end()
    assert {line["reason"] for line in box.nodes[0].history} == {"group-timeout"}
    assert box.loop.time() - begun_s == pytest.approx(3 * 120, abs=1.0)


def test_a_process_keeps_nothing_of_a_node_that_has_ended(memory) -> None:
    """A program may run one node after the other, each with its vectors."""

    def engines_that_ran() -> list[weakref.ref[Engine]]:
        with Box(0, memory / "box", 3, 1) as box:
            box.start_all()
            box.run(lambda: all(node.engine is not None for node in box.nodes))
            ran = [weakref.ref(node.engine) for node in box.nodes if node.engine is not None]
            box.run_to_the_end()
            assert [node.status for node in box.nodes] == [0, 0, 0]
            return ran

    ran = engines_that_ran()
    gc.collect()
    assert [engine() for engine in ran] == [None, None, None]
