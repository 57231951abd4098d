"""A swarm split by namespaces: the side with a quorum makes strong models, and later all are one again.

If an even number is split in half, the side of the first elector (the lowest key) has the quorum.
"""

from __future__ import annotations

import signal
import time

import msgpack
import pytest

from tests.outcomes import Deadlines
from tests.e2e.namespaces import Conditions
from tests.e2e.processes import Event, Process
from tests.e2e.swarm import MASKED, Swarm, fact, history

DEADLINES = Deadlines(group_s=5.0, shares_s=5.0, sums_s=5.0)
FOR_EVER = 100_000
ROUND_WITHIN_S = 90.0
"""Also bounds the wait for peers that are gone, which nothing reports."""
ALL_WITHIN_S = 60.0
"""From the end of the partition until each node is in a sum of all."""


def next_round(node: Process, **values: object) -> Event:
    """Waits for the next round that ends with these values."""
    last = max((event["round"] for event in node.events("round")), default=0)

    def is_new(event: Event) -> bool:
        return event["round"] > last and all(event[name] == values[name] for name in values)

    return node.event_after("round", is_new, ROUND_WITHIN_S)


def rounds_until(node: Process, over_at: float) -> None:
    """Waits while rounds end, with a model or without, until a time."""
    while time.monotonic() < over_at:
        next_round(node)


def electors(swarm: Swarm, number: int) -> set[bytes]:
    """Returns the electors of what follows the strong base of this node."""
    _, members, _, _ = msgpack.unpackb(fact(swarm.out(number), "line"))
    return set(members[0])


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("for_s", [20.0, 300.0])
@pytest.mark.parametrize(("here", "there"), [(4, 3), (3, 3), (5, 5)])
def test_one_side_goes_on_and_the_other_comes_back_to_it(make_nodes, here: int, there: int, for_s: float):
    count = here + there
    swarm, wire, nodes = make_nodes(count, FOR_EVER, Conditions(0.005, 0.005), MASKED, *DEADLINES.overrides)
    for node in nodes:
        node.event_after("round", lambda event: event["participants"] == count, ROUND_WITHIN_S)
    first, second = range(here), range(here, count)
    wire.cut(first, second)
    over_at = time.monotonic() + for_s
    for number in second:
        next_round(nodes[number], outcome="fallback")
    for node in nodes:
        rounds_until(node, over_at)
    with_quorum = {key.hex() for key in swarm.keys[:here]}
    decided = [{key.hex() for key in electors(swarm, number)} for number in first]
    assert all(each == with_quorum for each in decided), decided
    before = [electors(swarm, number) for number in second]
    assert all(each == set(swarm.keys) for each in before), "the side without a quorum has an anchor"

    wire.cut()
    healed_at = time.monotonic()
    for node in nodes:
        next_round(node, participants=count)
    took_s = time.monotonic() - healed_at
    assert took_s < ALL_WITHIN_S

    for node in nodes:
        node.send(signal.SIGINT)
    assert {node.status() for node in nodes} == {130}
    told = [{line["round"]: line for line in history(swarm.out(number))} for number in range(count)]
    of_all = [
        each
        for each in set.intersection(*(set(lines) for lines in told))
        if all(lines[each]["participants"] == count for lines in told)
    ]
    assert len({lines[max(of_all)]["base_digest"] for lines in told}) == 1
    alone = [sum(line["participants"] in (here, there) for line in lines.values()) for lines in told]
    print(f"{here} + {there}, {for_s:.0f} s: a sum of all {took_s:.1f} s later; models of a side: {alone}")
