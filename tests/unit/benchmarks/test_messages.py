"""A noted node goes through what came to it again, and each part of that is timed once."""

from __future__ import annotations

import hashlib
import itertools

from benchmarks.messages import PARTS, NotedNetwork, NotedPeer, Stopwatch, records, replay
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.wire import codec
from protocol.wire.masked_messages import ResultCertificate
from protocol.wire.messages import Ready
from scenarios.simulator.plans import Plan, Summation

FROM_DISK = ResultCertificate
"""What a peer sends that its node does not hold."""


def test_a_node_that_goes_through_its_record_again_sends_the_same():
    aggregation = Summation(masked=MaskedSettings(4.0, None), dimension=10)
    network = NotedNetwork(Plan(5, 2, aggregation=aggregation), 3).run()
    for peer in network.peers:
        assert isinstance(peer, NotedPeer)
        told = [each.message for each in network.transcript if each.sender == peer.index]
        frames = [codec.encode(each) for each in told if not isinstance(each, FROM_DISK)]
        sent = hashlib.sha256(b"".join(frame.join() for frame in frames))
        taken = replay(peer.record)
        assert taken.digest == sent.hexdigest()[:16]
        assert {part for round, part in taken.seconds if round == 1} == {*PARTS}


def test_the_coordinator_is_the_first_of_those_that_are_looked_at():
    frames = [[values[0] for name, values in one.calls if name == "receive"] for one in records(4, 2)]
    readys = [sum(isinstance(codec.decode(frame), Ready) for frame in each) for each in frames]
    assert len(readys) == 3
    assert readys[0] > max(readys[1:])


def test_the_time_of_a_call_within_a_call_counts_once():
    ticks = itertools.count()
    watch = Stopwatch(lambda: float(next(ticks)))
    inner = watch.timed_call("inner", lambda: None)
    watch.timed_call("outer", lambda: (inner(), inner()))()
    assert watch.seconds == {(0, "inner"): 2.0, (0, "outer"): 3.0}, "of five in all"
