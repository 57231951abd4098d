"""The switch of a relay under any sequence of frames, reads, departures and returns."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from protocol.relay.admission import CarrierKind
from protocol.relay.frames import FROM_RELAY, Absence, Frame, FrameKind, read_frame
from protocol.relay.switch import LIMITS, SwarmId, Switch

KEYS = tuple(bytes([number]) * 32 for number in range(1, 6))
SMALL = replace(LIMITS, pair_bytes=6_000, carrier_bytes=12_000, all_bytes=20_000)
WHO = st.integers(0, len(KEYS) - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), WHO, WHO, st.integers(0, 3000)),
        st.tuples(st.just("read"), WHO, st.integers(1, 5)),
        st.tuples(st.just("leave"), WHO, st.sampled_from(Absence)),
        st.tuples(st.just("enter"), WHO),
    ),
    max_size=200,
)


class Run:
    """A switch, and what must be true of it."""

    def __init__(self) -> None:
        self.switch = Switch(SMALL)
        self.carriers = {}
        self.sent = 0
        self.last = defaultdict(lambda: -1)

    def enter(self, who):
        key = KEYS[who]
        known = frozenset(KEYS)
        self.carriers[who], older, _ = self.switch.enter(
            key, CarrierKind.BULK, 1, SwarmId(KEYS[0], bytes(32)), known
        )
        assert (older is None) or older.is_over

    def leave(self, who, absence):
        if who in self.carriers:
            self.switch.leave(self.carriers.pop(who), absence)

    def send(self, who, to, size):
        if who in self.carriers:
            self.sent += 1
            frame = Frame(KEYS[to], FrameKind.DATA, 1, self.sent, memoryview(bytes(size)))
            message = memoryview(b"".join(frame.parts))
            woken = self.switch.pass_on(self.carriers[who], message, 0.0).woken
            assert all(not carrier.is_over for carrier in woken)

    def read(self, who, count):
        if who in self.carriers:
            for _ in range(count):
                parts = self.switch.take(self.carriers[who])
                if parts is not None:
                    self.look_at(who, read_frame(memoryview(b"".join(parts))))

    def look_at(self, who, frame):
        """Frames of one member to another come in their order, and none twice."""
        if frame.kind not in FROM_RELAY:
            assert self.last[who, frame.key] < frame.offset
            self.last[who, frame.key] = frame.offset

    def check(self):
        held = [carrier.waiting.held_bytes for carrier in self.switch.carriers]
        assert self.switch.held_bytes == sum(held) <= SMALL.all_bytes
        assert max(held, default=0) <= SMALL.carrier_bytes
        for carrier in self.switch.carriers:
            assert all(carrier.waiting.held_from(key) <= SMALL.pair_bytes for key in KEYS)


@given(STEPS)
def test_the_switch_keeps_its_bounds_and_the_order_of_frames(steps):
    run = Run()
    for name, *words in steps:
        getattr(run, name)(*words)
        run.check()
    for who in run.carriers:
        run.read(who, 1000)
    run.check()
    assert run.switch.held_bytes == 0
