"""Nodes whose lines are slow: their part of a sum takes long, and nobody takes that for a lie."""

from __future__ import annotations

import pytest

from node.task.sections import LEAST_RATE
from tests.box.box import BoxNode
from tests.cases import soak

LARGE = ("model.args.sizes=[64,14333,10]",)
"""A model of 4.3 MB."""
MEDIUM = ("model.args.sizes=[64,3583,10]",)
BYTES = 4 * (64 * 3583 + 3583 + 3583 * 10 + 10)
"""Of the medium one."""
MOST = 3
"""Of the four others: one may wait for the total of another at the end, who waits for the trickler."""
SLOW = 250_000.0
"""2 Mbit/s, in bytes per second."""


def _says(node: BoxNode, text: str) -> bool:
    return any(text in line for line in node.lines)


@pytest.mark.parametrize("protocol", ["masked", soak("additive")])
def test_a_site_at_2_mbit_per_second_takes_part_in_every_sum(make_box, protocol: str) -> None:
    """Its sums once failed by fixed times of 15 s: the others said that it withholds its part."""
    box = make_box(4, 3, *LARGE, f"aggregation.protocol={protocol}")
    box.network.narrow(2, SLOW, SLOW)
    box.start_all()
    box.run_to_the_end()
    assert [[line["participants"] for line in node.history] for node in box.nodes] == [[4] * 3] * 4
    assert not any("left out" in line for node in box.nodes for line in node.lines)


@pytest.mark.sampled
@pytest.mark.parametrize("count", [3, soak(5)])
def test_a_swarm_at_1_mbit_per_second_sums_a_model_of_a_million_parameters(make_box, count: int) -> None:
    """Each sum takes a minute or more, four times its cap: bytes that come have a time of their own."""
    box = make_box(count, 3, *LARGE)
    for node in box.nodes:
        box.network.narrow(node.number, SLOW / 2, SLOW / 2)
    box.start_all()
    box.run_to_the_end()
    for node in box.nodes:
        assert [line["participants"] for line in node.history] == [count] * 3
        assert min(line["aggregate_s"] for line in node.history) > 50


@pytest.mark.sampled
@pytest.mark.parametrize("protocol", ["additive", soak("masked")])
def test_a_site_whose_line_becomes_slow_takes_part_still(make_box, protocol: str) -> None:
    """The times of all have adapted to fast sums by then."""
    box = make_box(4, 6, *LARGE, f"aggregation.protocol={protocol}")
    box.start_all()
    box.run(lambda: all(len(node.records) == 4 for node in box.nodes))
    box.network.narrow(2, SLOW, SLOW)
    box.run_to_the_end()
    assert [[line["participants"] for line in node.history] for node in box.nodes] == [[4] * 6] * 4
    assert not any("left out" in line for node in box.nodes for line in node.lines)


@pytest.mark.sampled
def test_a_trickler_is_left_out_after_its_second_miss_and_costs_no_more_than_two_times_for_bulk(make_box):
    """Its bulk comes drop by drop, at a quarter of the least rate; what else it says comes at once."""
    box = make_box(5, 8, *MEDIUM)
    trickler, *others = (box.nodes[number] for number in (2, 0, 1, 3, 4))
    box.network.trickle(trickler.number, LEAST_RATE / 4)
    begun_s = box.loop.time()
    box.start_all()
    named = f"{trickler.endpoint} did not send its"
    box.run(lambda: sum(_says(node, "left out for 4 rounds") for node in others) >= MOST)
    bulk_s = 15 + 2 * (2 * BYTES * 4 / 5) / LEAST_RATE
    assert box.loop.time() - begun_s < 2 * bulk_s + 10
    left_s = box.loop.time()
    box.run(lambda: all(node.is_over for node in others))
    assert box.loop.time() - left_s < 30, "without it, sums are as fast as ever"
    for node in others:
        assert [line["participants"] for line in node.history if line["participants"]] == [4] * 8
        assert all(named in line for line in node.lines if "left out" in line and "no longer" not in line)
    box.run_to_the_end()
    needs = [line for line in trickler.lines if "your upload needs" in line]
    assert [line.partition(": set ")[2][:27] for line in needs] == ["aggregation.least_rate to 1"]
