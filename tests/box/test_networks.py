"""Masked groups over a network that is slow, and a peer that is killed behind it."""

from __future__ import annotations

import pytest

from protocol.wire.masked_messages import Masked
from tests.cases import soak

DEADLINES = (
    "aggregation.protocol=masked",
    "aggregation.group_timeout_s=20",
    "aggregation.shares_timeout_s=6",
    "aggregation.sums_timeout_s=6",
)


@pytest.mark.sampled("0.6")
@pytest.mark.parametrize("slowest_s", [0.05, 0.6])
def test_delays_cost_no_round(make_box, slowest_s: float) -> None:
    box = make_box(5, 6, *DEADLINES)
    box.network.slowest_s = slowest_s
    box.start_all()
    box.run_to_the_end()
    assert [[line["participants"] for line in node.history] for node in box.nodes] == [[5] * 6] * 5


@pytest.mark.sampled
@pytest.mark.parametrize("power", [soak(False), True], ids=["process", "machine"])
def test_a_peer_killed_behind_a_slow_wire_comes_back(make_box, power: bool) -> None:
    """If its machine is gone, nothing tells the others: packets just stop.

    Their rounds take less than it needs for the newest base, and they wait for it a tenth of the time only.
    """
    last = 24
    box = make_box(5, last, *DEADLINES)
    box.network.slowest_s = 0.3
    *others, node = box.nodes
    node.before_message(lambda: node.kill(power=power), "out", Masked)
    box.start_all()
    box.run(lambda: node.is_over)
    node.start()
    box.run_to_the_end()
    back = next(line["round"] for line in others[0].history if line["participants"] == 5)
    assert 1 < back <= last - 5
    for one in box.nodes:
        assert [line["participants"] for line in one.history][-5:] == [5] * 5
    assert len({one.summary["base_digest"] for one in box.nodes}) == 1


def test_under_tls_a_client_is_closed_though_nobody_answers(make_box) -> None:
    """TLS would wait 30 s for the far end to say that it closes, too."""
    box = make_box(3, 1000, options=("--tls", "on"))
    node, *others = box.nodes
    box.start_all()
    box.run(lambda: all(one.has_aggregated() for one in box.nodes))
    for other in others:
        box.network.cut(node.number, other.number)
    cut_s = box.loop.time()
    closing = node.life.begin(node.engine.transport._dialler.close())
    box.run(closing.done)
    assert box.loop.time() == cut_s
