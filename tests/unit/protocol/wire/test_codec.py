"""Bytes <-> messages: every message survives, and nothing else is accepted."""

import hashlib
from dataclasses import fields, replace
from typing import Any

import msgpack
import pytest

from protocol.errors import RemoteProtocolError
from protocol.vectors.pieces import PIECE_BYTES, PIECE_WORDS
from protocol.wire import codec, signing
from protocol.wire.fields import Signed
from protocol.wire.limits import (
    FRAMES,
    MAX_BITMAP_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_PRODUCT_BYTES,
)
from protocol.wire.masked_messages import (
    Ack,
    AckVote,
    Check,
    Join,
    JoinCertificate,
    Joined,
    MaskedHead,
    Propose,
    Release,
    ResultCertificate,
    Total,
    TotalPiece,
    ViewChange,
)
from protocol.wire.messages import Announce, BasePiece
from protocol.wire.records import records_in
from tests.parts import announce, group, group_of, members, ready
from tests.samples import (
    ACK_VOTE,
    CHECK_VOTE,
    DEAL,
    DEALT,
    DIGEST,
    DISPUTE,
    JOIN_HEADS,
    JOIN_VOTE,
    LACKING,
    LOCKED,
    LOCKED_PROPOSAL,
    MASKED_HEAD,
    MASKED_SAMPLES,
    ONE,
    PROOF,
    RELEASE_HEAD,
    RUN,
    SAMPLES,
    SID,
    TOTAL_HEAD,
    UNLOCKED,
)


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
    assert {type(message) for message in SAMPLES} == set(codec.KINDS.values())


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_a_frame_cut_off_anywhere_in_its_header_is_refused(message):
    frame = codec.encode(message)
    for end in range(0, len(frame.head), 7):
        with pytest.raises(RemoteProtocolError):
            codec.decode(frame.head[:end])


def test_a_large_payload_is_a_view_of_its_frame_that_nobody_writes_to_and_a_small_one_holds_no_frame():
    large, small = MAX_HEADER_BYTES + 1, MAX_HEADER_BYTES
    for size, kind in ((large, memoryview), (small, bytes)):
        frame = bytearray(codec.encode(BasePiece(bytes(32), 0, bytes(size))).join())
        payload = codec.decode(memoryview(frame)).payload
        assert (type(payload), len(payload)) == (kind, size)
        if kind is memoryview:
            assert payload.obj is frame
            assert payload.readonly


def test_a_sid_names_whom_a_group_excuses_and_whom_a_tracker_named():
    readys, excused = group(members(3)).readys, announce(members(4)[3])
    digest = hashlib.sha256(signing.canonical(excused)).digest()
    grounds = [{}, {"excused": (excused,)}, {"electors": (digest,)}, {"electors": (DIGEST,)}]
    sids = {signing.session_id(group_of(readys, members(3)[0], **each)) for each in grounds}

    assert len(sids) == len(grounds)


def test_a_payload_may_be_a_piece_and_its_carries_and_not_a_byte_more():
    total = TotalPiece(bytes(32), 0, bytes(PIECE_BYTES + PIECE_WORDS))
    assert codec.decode(codec.encode(total).join()) == total

    with pytest.raises(RemoteProtocolError, match="a payload of"):
        codec.decode(codec.encode(replace(total, payload=total.payload + b"x")).join())


OTHER_VERSIONS = (0, 1, 6, 8, True, 7.0, None, b"\x07", "7", [7])
OTHER_KINDS = (-1, *range(28, 34), 44, 2**40, True, "3", None, [3])
HEADERS = (*([version, 3, bytes(16)] for version in OTHER_VERSIONS), None, 1, b"", "text", [], [1])
ACCEPTED = msgpack.packb([FRAMES, 3, bytes(16)])
BROKEN = {
    "^a frame of": (b"", bytes(3), bytes(MAX_FRAME_BYTES + 1)),
    "cut off or too long": (
        *(length.to_bytes(4, "little") + bytes(4) for length in (5, 2**31, 2**32 - 1)),
        framed(bytes(MAX_HEADER_BYTES + 1)),
    ),
    "Accepted with 1 bytes after": (framed(ACCEPTED, b"x"),),
    "not msgpack within the limits": (framed(ACCEPTED + b"\xc0"),),
    "not a frame of version 7": tuple(framed(msgpack.packb(header)) for header in HEADERS),
    "the number of a message expected": tuple(framed([FRAMES, kind, bytes(16)]) for kind in OTHER_KINDS),
    "the fields of Accepted": (framed([FRAMES, 3]), framed([FRAMES, 3, bytes(16), bytes(16)])),
    "the fields of Announce": (framed([FRAMES, 4, bytes(16), b"announce"]),),
    "a list of at most 256": (framed([FRAMES, 1, bytes(32), bytes(16), b"no list", 0, bytes(64)]),),
}
"""Frames by the reason for their refusal."""


@pytest.mark.parametrize("why", BROKEN)
def test_a_frame_that_is_no_message_is_refused(why):
    for frame in BROKEN[why]:
        with pytest.raises(RemoteProtocolError, match=why):
            codec.decode(frame)


def test_the_numbers_of_messages_stay_and_those_of_former_ones_are_not_used_again():
    numbers = {kind.__name__: number for number, kind in codec.KINDS.items()}
    assert (numbers["Hello"], numbers["ResultCertificate"], numbers["Goodbye"]) == (0, 27, 34)
    assert numbers["Equivocation"] == 42
    assert set(range(43)) - set(codec.KINDS) == set(range(28, 34))


@pytest.mark.parametrize(
    "nonce", [bytes(15), bytes(17), "a" * 16, 16, None, [1] * 16, {}, True, msgpack.ExtType(1, b""), 1.5]
)
def test_a_field_of_the_wrong_type_or_length_is_refused(nonce):
    with pytest.raises(RemoteProtocolError):
        codec.decode(framed([FRAMES, 3, nonce]))


BAD_FIELDS = {
    "endpoint": ["x" * 261, "here:1/x", b"here:1", 7],
    "task": ["x" * 201, None],
    "parameters": [bytes(31), "a" * 32],
    "min_participants": [2, 65, -1, True, 3.0],
    "counter": [-1, 2**53 + 1, "now"],
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


def test_a_group_of_65_is_refused():
    many = replace(group(members(3)), readys=group(members(3)).readys[:1] * 65)

    with pytest.raises(RemoteProtocolError, match="a list of at most 64"):
        codec.decode(codec.encode(many).join())


def sample(kind: type) -> Any:
    """Returns the last sample of its kind, with all optional parts."""
    return [message for message in MASKED_SAMPLES if type(message) is kind][-1]


def refused(message: Any) -> bool:
    """Returns whether the codec refuses this frame."""
    try:
        codec.decode(codec.encode(message).join())
    except RemoteProtocolError:
        return True
    return False


ITEMS = {
    (Join, "deals"): (DEAL, 32),
    (Join, "hashes"): (DIGEST, 4096),
    (Joined, "heads"): (JOIN_HEADS[0], 64),
    (JoinCertificate, "signatures"): (bytes(64), 64),
    (Total, "inputs"): (MASKED_HEAD, 64),
    (Ack, "digests"): (DIGEST, 4096),
    (Ack, "inputs"): (MASKED_HEAD, 64),
    (Release, "shares"): (DIGEST, 64),
    (ViewChange, "proofs"): (PROOF, 1),
    (Propose, "votes"): (UNLOCKED, 64),
    (Propose, "proofs"): (PROOF, 1),
    (ResultCertificate, "digests"): (DIGEST, 4096),
    (ResultCertificate, "dealt"): (DEALT[0], 64),
    (ResultCertificate, "secrets"): (DIGEST, 64),
    (ResultCertificate, "releases"): (RELEASE_HEAD, 64),
}
"""The items of each list in a masked session's messages, and the most of them."""


@pytest.mark.parametrize(("kind", "name"), ITEMS, ids=lambda value: getattr(value, "__name__", value))
def test_a_list_of_a_masked_session_ends_at_its_limit(kind, name):
    item, most = ITEMS[kind, name]
    longest = replace(sample(kind), **{name: (item,) * most})

    assert codec.decode(codec.encode(longest).join()) == longest
    with pytest.raises(RemoteProtocolError, match=f"a list of at most {most}|not msgpack within the limits"):
        codec.decode(codec.encode(replace(longest, **{name: (item,) * (most + 1)})).join())


@pytest.mark.parametrize(("kind", "name"), ITEMS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("item", [b"short", 7, None, [], [7]], ids=repr)
def test_a_list_of_a_masked_session_holds_nothing_else(kind, name, item):
    assert refused(replace(sample(kind), **{name: (item,)}))


RECORDS = (
    *(JOIN_HEADS[0], MASKED_HEAD, TOTAL_HEAD, RELEASE_HEAD, LOCKED_PROPOSAL),
    *(LACKING, JOIN_VOTE, CHECK_VOTE, ACK_VOTE, LOCKED, DISPUTE),
)
BAD_VALUES = {
    "sid": [bytes(31), bytes(33), "s" * 32, None],
    "sender": [bytes(31), 7],
    "signature": [bytes(63), bytes(65), b""],
    "deals": [bytes(31)],
    "steps": [0, 33, True, b"1"],
    "shares": [bytes(31)],
    "joins": [bytes(31), 1],
    "digest": [bytes(31)],
    "inputs": [bytes(33)],
    "totals": [bytes(31)],
    "index": [-1, 4096, True, 1.0],
    "missing": [-1, True, b"\xff"],
    "included": [-1, True, b"\xff", 1.5],
    "products": ["text", None, 7, bytes(MAX_PRODUCT_BYTES + 1)],
    "view": [-1, 65, True],
    "holds": [bytes(MAX_BITMAP_BYTES + 1), 3, "f"],
    "locks": [(ACK_VOTE, ACK_VOTE), (JOIN_VOTE,), 7],
    "reducers": [(64,), (-1,), (True,), (0,) * 4097],
    "votes": [bytes(31)],
}
CHANGES = [
    (record, name, value)
    for record in RECORDS
    for name, values in BAD_VALUES.items()
    if hasattr(record, name)
    for value in values
]


def carrying(record: Any) -> Any:
    """Makes a message whose head or vote is this record, or the record itself if it is a message."""
    for message in MASKED_SAMPLES:
        if type(message) is type(record):
            return record
        for where in ("head", "vote"):
            if type(getattr(message, where, None)) is type(record):
                return replace(message, **{where: record})
    raise AssertionError(f"no message carries {type(record).__name__}")


@pytest.mark.parametrize(("record", "name", "value"), CHANGES)
def test_a_record_of_a_masked_session_with_a_field_out_of_range_is_refused(record, name, value):
    assert not refused(carrying(record))
    assert refused(carrying(replace(record, **{name: value})))


MASKED = MaskedHead.__module__


def test_every_signed_record_of_a_masked_session_was_tried_with_every_field_out_of_range():
    signed = {kind for kind in records_in(codec.KINDS.values()) if issubclass(kind, Signed)}
    assert {type(record) for record in RECORDS} == {one for one in signed if one.__module__ == MASKED}
    assert {field.name for record in RECORDS for field in fields(record)} == set(BAD_VALUES)


def test_a_set_of_more_than_64_members_is_refused():
    """msgpack itself encodes no number beyond 64 bits."""
    with pytest.raises(OverflowError):
        codec.encode(replace(sample(Total), head=replace(TOTAL_HEAD, included=2**64)))


def test_a_piece_of_a_total_has_a_place_among_4096():
    assert refused(TotalPiece(bytes(32), 4096))
    assert refused(TotalPiece(bytes(32), -1))


def test_a_proof_needs_digests_and_check_votes():
    for broken in (replace(PROOF, digests=(b"",)), replace(PROOF, checks=(ACK_VOTE,))):
        assert refused(ViewChange(LOCKED, (broken,)))
        assert refused(replace(sample(Propose), proofs=(broken,)))


def test_a_check_with_the_heads_of_more_totals_than_a_vector_has_pieces_is_refused():
    one = codec.plain(Check(CHECK_VOTE, (TOTAL_HEAD,)))
    with pytest.raises(RemoteProtocolError, match="a list of at most 4096"):
        codec._build(Check, [one[0], one[1] * 4097], memoryview(b""))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_signature_covers_every_field_of_a_masked_session_s_records(record):
    """Also the records inside them; and kinds with equal fields have different signatures."""
    signing.verify(record, record.sender)
    others = {int: 5, bytes: RUN[::-1] * 3, tuple: (1, 2)}
    for field in fields(record):
        changed = replace(record, **{field.name: others[type(getattr(record, field.name))]})
        with pytest.raises(RemoteProtocolError, match="signature"):
            signing.verify(changed, record.sender)


def test_a_vote_to_ack_is_not_signed_by_a_signature_over_another_record_of_the_same_fields():
    head = signing.sign(MaskedHead(SID, ONE.public, 3, DIGEST), ONE)
    vote = AckVote(head.sid, head.sender, head.index, head.digest, head.signature)

    assert signing.canonical(head) == signing.canonical(vote)
    with pytest.raises(RemoteProtocolError, match="bad ack signature"):
        signing.verify(vote, ONE.public)


def test_evidence_says_what_kind_of_record_was_signed():
    labels = {signing.evidence(record).split(b"\0")[0] for record in RECORDS}

    assert len(labels) == len(RECORDS)


def test_a_signature_covers_every_field_of_a_record_but_itself():
    one = announce(members(3)[0])
    others = {"endpoint": "elsewhere:1", "round": 9, "leaving": True, "following": True, "task": "other"}
    for field, value in others.items():
        with pytest.raises(RemoteProtocolError, match="bad announce signature"):
            signing.verify(replace(one, **{field: value}), one.key)


def test_a_piece_is_not_under_the_signature_of_its_sum_but_its_digest_is():
    message = next(message for message in SAMPLES if type(message).__name__ == "Sum")
    signing.verify(replace(message, index=3, payload=b"other"), message.sender)

    with pytest.raises(RemoteProtocolError, match="bad sum signature"):
        signing.verify(replace(message, pieces=(bytes(32),)), message.sender)


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
    anchored = replace(held, generation=1, anchor=1)
    assert anchored.rank > replace(higher, generation=9, anchor=0).rank, "many weak bases weigh nothing"


def test_a_frame_with_a_view_as_payload_joins_to_the_same_bytes():
    piece = BasePiece(bytes(32), 0, b"abcd")

    assert codec.encode(replace(piece, payload=memoryview(b"abcd"))).join() == codec.encode(piece).join()
