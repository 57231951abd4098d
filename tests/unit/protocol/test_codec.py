"""Bytes <-> messages: every message survives, and nothing else gets in."""

from dataclasses import replace

import msgpack
import pytest

from protocol import codec
from protocol.errors import RemoteProtocolError
from protocol.messages import Accepted, Announce, BasePiece, Share
from protocol.vectors import PIECE_BYTES
from tests.parts import announce, group, members, ready
from tests.samples import SAMPLES


def framed(header: object, after: bytes = b"") -> bytes:
    packed = header if isinstance(header, bytes) else msgpack.packb(header)
    return len(packed).to_bytes(4, "little") + packed + after


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_every_message_survives_the_codec(message):
    frame = codec.encode(message)

    assert codec.decode(frame.join()) == message
    assert codec.decode(memoryview(frame.join())) == message
    assert len(frame) == len(frame.join())


def test_there_is_a_sample_of_every_kind_of_message():
    assert {type(message) for message in SAMPLES} == set(codec._TYPES)


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_a_frame_cut_off_anywhere_in_its_header_is_refused(message):
    frame = codec.encode(message)
    for end in range(0, len(frame.head), 7):
        with pytest.raises(RemoteProtocolError):
            codec.decode(frame.head[:end])


def test_bytes_after_a_message_without_payload_are_refused():
    with pytest.raises(RemoteProtocolError, match="Accepted with 1 bytes after"):
        codec.decode(codec.encode(Accepted(bytes(16))).join() + b"x")


def test_bytes_after_the_header_inside_its_length_are_refused():
    header = msgpack.packb([codec.VERSION, 3, bytes(16)]) + b"\xc0"
    with pytest.raises(RemoteProtocolError, match="not msgpack within the limits"):
        codec.decode(framed(header))


def test_a_payload_may_be_a_piece_and_its_tag_and_not_a_byte_more():
    share = Share(bytes(32), bytes(32), bytes(32), 0, bytes(PIECE_BYTES + 16))
    assert codec.decode(codec.encode(share).join()) == share

    with pytest.raises(RemoteProtocolError, match="a payload of"):
        codec.decode(codec.encode(replace(share, payload=bytes(PIECE_BYTES + 17))).join())


@pytest.mark.parametrize("size", [0, 3, codec.MAX_FRAME_BYTES + 1])
def test_a_frame_of_an_impossible_length_is_refused(size):
    with pytest.raises(RemoteProtocolError, match="a frame of"):
        codec.decode(bytes(size))


@pytest.mark.parametrize("length", [5, 2**31, 2**32 - 1])
def test_a_header_longer_than_its_frame_is_refused(length):
    with pytest.raises(RemoteProtocolError, match="cut off or too long"):
        codec.decode(length.to_bytes(4, "little") + bytes(4))


def test_a_header_beyond_its_limit_is_refused_before_it_is_read():
    with pytest.raises(RemoteProtocolError, match="cut off or too long"):
        codec.decode(framed(bytes(codec.MAX_HEADER_BYTES + 1)))


@pytest.mark.parametrize("version", [0, 1, 3, True, 2.0, None, b"\x01", "1", [1]])
def test_another_version_is_refused(version):
    with pytest.raises(RemoteProtocolError, match="not a frame of protocol version 2"):
        codec.decode(framed([version, 3, bytes(16)]))


@pytest.mark.parametrize("header", [None, 1, b"", "text", [], [1]])
def test_a_header_that_is_no_list_of_version_and_type_is_refused(header):
    with pytest.raises(RemoteProtocolError, match="not a frame of protocol version 2"):
        codec.decode(framed(msgpack.packb(header)))


@pytest.mark.parametrize("kind", [-1, 19, 2**40, True, "3", None, [3]])
def test_an_unknown_type_is_refused(kind):
    with pytest.raises(RemoteProtocolError, match="an integer from 0 to 18"):
        codec.decode(framed([codec.VERSION, kind, bytes(16)]))


@pytest.mark.parametrize(
    "nonce", [bytes(15), bytes(17), "a" * 16, 16, None, [1] * 16, {}, True, msgpack.ExtType(1, b""), 1.5]
)
def test_a_field_of_the_wrong_type_or_length_is_refused(nonce):
    with pytest.raises(RemoteProtocolError):
        codec.decode(framed([codec.VERSION, 3, nonce]))


@pytest.mark.parametrize("fields", [[], [bytes(16), bytes(16)]])
def test_a_message_with_too_few_or_too_many_fields_is_refused(fields):
    with pytest.raises(RemoteProtocolError, match="the fields of Accepted"):
        codec.decode(framed([codec.VERSION, 3, *fields]))


BAD_FIELDS = {
    "endpoint": ["x" * 261, b"here", 7],
    "task": ["x" * 201, None],
    "parameters": [bytes(31), "a" * 32],
    "min_participants": [2, 65, -1, True, 3.0],
    "issued_ms": [-1, 2**53 + 1, "now"],
    "round": [-1, 2**31],
    "leaving": [0, 1, None],
    "following": [0, 1, None],
    "signature": [bytes(63), bytes(65)],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in BAD_FIELDS.items() for value in values]
)
def test_an_announcement_with_a_field_out_of_range_is_refused(field, value):
    message = ready(members(3)[0], bytes(32))
    broken = replace(message, announce=replace(message.announce, **{field: value}))

    with pytest.raises(RemoteProtocolError):
        codec.decode(codec.encode(broken).join())


def test_a_record_that_is_no_list_is_refused():
    with pytest.raises(RemoteProtocolError, match="the fields of Announce"):
        codec.decode(framed([codec.VERSION, 4, bytes(16), b"announce"]))


def test_a_group_of_65_is_refused():
    many = replace(group(members(3)), readys=group(members(3)).readys[:1] * 65)

    with pytest.raises(RemoteProtocolError, match="a list of at most 64"):
        codec.decode(codec.encode(many).join())


def test_a_list_where_none_is_expected_is_refused():
    with pytest.raises(RemoteProtocolError, match="a list of at most 256"):
        codec.decode(framed([codec.VERSION, 1, bytes(32), bytes(16), b"no list"]))


def test_a_signature_covers_every_field_of_a_record_but_itself():
    one = announce(members(3)[0])
    others = {"endpoint": "elsewhere:1", "round": 9, "leaving": True, "following": True, "task": "other"}
    for field, value in others.items():
        with pytest.raises(RemoteProtocolError, match="bad announce signature"):
            codec.verify(replace(one, **{field: value}), one.key)


def test_a_piece_is_not_under_the_signature_of_its_sum_but_its_digest_is():
    message = next(message for message in SAMPLES if type(message).__name__ == "Sum")
    codec.verify(replace(message, index=3, payload=b"other"), message.sender)

    with pytest.raises(RemoteProtocolError, match="bad sum signature"):
        codec.verify(replace(message, pieces=(bytes(32),)), message.sender)


def test_a_base_with_a_higher_generation_then_more_members_then_the_smaller_digest_ranks_first():
    held = next(
        message.announce.base
        for message in SAMPLES
        if isinstance(getattr(message, "announce", None), Announce)
    )
    higher = replace(held, generation=held.generation + 1)
    larger = replace(held, members=held.members + 1)
    smaller = replace(held, digest=bytes(32))

    assert higher.rank > larger.rank > smaller.rank > held.rank


def test_a_frame_with_a_view_as_payload_joins_to_the_same_bytes():
    piece = BasePiece(bytes(32), 0, b"abcd")

    assert codec.encode(replace(piece, payload=memoryview(b"abcd"))).join() == codec.encode(piece).join()
