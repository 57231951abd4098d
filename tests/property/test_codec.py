"""Any bytes decode to a message within the limits or raise RemoteProtocolError, with little memory."""

import tracemalloc
from collections.abc import Callable
from dataclasses import fields, replace

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import RemoteProtocolError
from protocol.wire import codec
from protocol.wire.limits import FRAMES, MAX_HEADER_BYTES, MAX_PIECES
from protocol.wire.messages import Message
from tests.samples import SAMPLES

ENCODED = [codec.encode(message).join() for message in SAMPLES]
BINARY = st.binary(min_size=32, max_size=32)
MARKERS = [bytes([marker]) for marker in b"\xdc\xdd\xde\xdf\xc4\xc5\xc6\xd9\xda\xdb\xc7"]
"""Of msgpack's lists, maps, bytes, texts and extensions with a length of their own."""
OPENINGS = [b"\x91", b"\xdc\x00\x01", b"\xdc\x30\x00", b"\xdd\x00\x00\x30\x00", b"\x81\xa0"]


def framed(header: bytes, after: bytes = b"") -> bytes:
    return len(header).to_bytes(4, "little") + header + after


def survives(frame: bytes) -> None:
    """Checks that decoding raises nothing else, and that an accepted message is what the sender encoded."""
    try:
        message = codec.decode(frame)
    except RemoteProtocolError:
        return
    assert codec.decode(codec.encode(message).join()) == message


def peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


NUMBERS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
PLAIN = st.recursive(
    NUMBERS | st.binary(max_size=80) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=14) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=30,
)


@given(st.binary(max_size=400), st.integers(0, 2**32 - 1))
def test_garbage_is_refused_whatever_length_it_claims(frame, length):
    survives(frame)
    survives(framed(frame))
    survives(length.to_bytes(4, "little") + frame)


@given(st.integers(-1, max(codec.KINDS) + 1), st.lists(PLAIN, max_size=13), st.binary(max_size=40))
def test_any_fields_for_any_type_are_read_or_refused(kind, values, after):
    survives(framed(msgpack.packb([FRAMES, kind, *values]), after))


@given(st.sampled_from(ENCODED), st.data())
def test_valid_frames_with_bytes_changed_cut_off_or_put_in_are_read_or_refused(frame, data):
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(changed) - 1)))
        cut = data.draw(st.sampled_from([0, 1, 4, len(changed)]))
        changed[at : at + cut] = data.draw(st.binary(max_size=8))
    survives(bytes(changed))


@given(st.sampled_from(SAMPLES), st.data())
def test_a_message_with_any_other_field_is_read_as_such_or_refused(message: Message, data):
    names = [field.name for field in fields(message) if field.name != "payload"]
    changed = replace(message, **{data.draw(st.sampled_from(names)): data.draw(PLAIN)})
    try:
        header = msgpack.packb([FRAMES, codec._NUMBERS[type(message)], *codec.plain(changed)])
    except (ValueError, OverflowError):
        return
    survives(framed(header))


@given(st.sampled_from(MARKERS), st.binary(max_size=12))
def test_huge_lengths_inside_a_header_allocate_little(marker, rest):
    """A claimed list reserves at most MAX_PIECES places before its items are read: 33 kB."""
    for header in (marker + b"\xff" * 4 + rest, b"\x93\x03\x03" + marker + b"\x2f\xff" + rest):
        assert peak_bytes(lambda header=header: survives(framed(header))) < 256 * 1024


def refused(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        codec.decode(frame)


@pytest.mark.parametrize("opening", OPENINGS)
def test_deep_nesting_is_refused_within_bounded_memory(opening):
    """msgpack's own stack ends at 1024 levels, each of at most MAX_PIECES places: 34 MB at most."""
    header = (opening * MAX_HEADER_BYTES)[:MAX_HEADER_BYTES]
    assert peak_bytes(lambda: refused(framed(header))) < 8 * 1024 * MAX_PIECES + 2**20


def test_valid_frames_need_memory_in_proportion_to_their_length_and_an_oversized_one_no_copy():
    for frame in ENCODED:
        assert peak_bytes(lambda frame=frame: codec.decode(frame)) < 64 * 1024 + 8 * len(frame)
    frame = bytes(64 * 2**20)
    assert peak_bytes(lambda: refused(frame)) < 256 * 1024


KNOWN = st.lists(st.sampled_from((SAMPLES[0].announce, *SAMPLES[0].known)), max_size=6)


@settings(max_examples=50)
@given(KNOWN, BINARY, st.text(max_size=50))
def test_hellos_and_rosters_of_any_length_survive(known, key, parameters):
    hello = replace(SAMPLES[0], known=tuple(known), parameters=parameters)
    for message in (hello, replace(SAMPLES[2], key=key, known=tuple(known))):
        assert codec.decode(codec.encode(message).join()) == message
