"""Two records that contradict each other prove to anybody that their signer lies; nothing else does."""

from dataclasses import replace
from typing import get_args

import pytest

from protocol.aggregation.equivocation import RULES, Once, caught, proof, proven
from protocol.errors import RemoteProtocolError
from protocol.wire import codec, signing
from protocol.wire.limits import MAX_EVIDENCE_BYTES
from protocol.wire.messages import Equivocation, Sum
from tests.parts import members, resigned
from tests.samples import (
    ACK_VOTE,
    CHECK_VOTE,
    DIGEST,
    JOIN_HEADS,
    LACKING,
    LOCKED,
    LOCKED_PROPOSAL,
    MASKED_HEAD,
    ONE,
    RELEASE_HEAD,
    RUN,
    SUM,
    TOTAL_HEAD,
)

SIGNERS = {key.public: key for key in members(3)}
OTHER = {
    Sum: {"pieces": (DIGEST, RUN)},
    type(JOIN_HEADS[0]): {"deals": RUN},
    type(MASKED_HEAD): {"digest": RUN},
    type(TOTAL_HEAD): {"digest": RUN},
    type(CHECK_VOTE): {"products": b"\0\1\2\3" * 3},
    type(ACK_VOTE): {"totals": RUN},
    type(RELEASE_HEAD): {"shares": RUN},
    type(LOCKED): {"holds": b""},
    type(LOCKED_PROPOSAL): {"included": 3},
}
"""What is different in the second record of each kind."""
RECORDS = (
    *(SUM.header, JOIN_HEADS[0], MASKED_HEAD, TOTAL_HEAD, CHECK_VOTE),
    *(ACK_VOTE, RELEASE_HEAD, LOCKED, LOCKED_PROPOSAL),
)
BY_KIND = pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)


def again(record: Once, **changes) -> Once:
    """Returns another record that the same member signs."""
    return resigned(record, SIGNERS[record.sender], **changes)


def shown(*records: Once) -> Equivocation:
    return Equivocation(*map(signing.evidence, records))


def refused(message: Equivocation, match: str = "do not contradict") -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        proven(message)


def test_there_is_a_rule_for_each_kind():
    assert set(get_args(Once)) == set(RULES) == {type(record) for record in RECORDS} == set(OTHER)
    assert len({rule.what for rule in RULES.values()}) == len(RULES)


@BY_KIND
def test_two_records_that_contradict_each_other_are_proof_to_whoever_gets_them(record):
    other = again(record, **OTHER[type(record)])
    (message,) = proof(tuple(map(signing.evidence, (record, other))))
    evidence = proven(codec.decode(codec.encode(message).join()))
    assert evidence == caught(record, other)
    assert evidence.sender == record.sender


@BY_KIND
def test_two_records_of_different_sessions_or_slots_or_equal_ones_prove_nothing(record):
    other = OTHER[type(record)]
    refused(shown(record, record))
    refused(shown(record, again(record, sid=RUN, **other)))
    for field in RULES[type(record)].fields:
        value = getattr(record, field)
        changed = RUN if isinstance(value, bytes) else value - 1
        refused(shown(record, again(record, **{field: changed}, **other)))


@BY_KIND
def test_what_nobody_signed_proves_nothing(record):
    other = replace(again(record, **OTHER[type(record)]), signature=bytes(64))
    refused(shown(record, other), "bad .* signature")
    refused(shown(other, record), "bad .* signature")


def test_records_of_two_members_or_of_two_kinds_prove_nothing():
    refused(shown(*JOIN_HEADS))
    refused(shown(MASKED_HEAD, ACK_VOTE))
    refused(shown(*(signing.sign(replace(SUM.header, sender=key.public), key) for key in members(2))))


def test_records_of_which_one_may_sign_several_prove_nothing():
    refused(shown(LACKING, signing.sign(replace(LACKING, missing=0b10), ONE)))


@pytest.mark.parametrize(
    ("evidence", "match"),
    [
        (b"nothing\0" + bytes(100), "unknown kind"),
        (b"nothing", "unknown kind"),
        (b"join\0" + bytes(64), "not msgpack"),
        (b"join\0\x90" + bytes(64), "fields of JoinHead"),
        (b"join\0\x07" + bytes(64), "fields of JoinHead"),
        (signing.evidence(JOIN_HEADS[0])[:-1], "not msgpack"),
    ],
)
def test_what_is_no_record_proves_nothing(evidence, match):
    refused(Equivocation(evidence, signing.evidence(JOIN_HEADS[0])), match)


def test_only_two_records_that_fit_a_frame_are_shown():
    record = bytes(MAX_EVIDENCE_BYTES)
    assert len(codec.encode(Equivocation(record, record))) <= codec.MAX_HEADER_BYTES
    assert proof((record,)) == proof((record, record, record)) == proof((record, record + b"\0")) == ()
    assert len(proof((record, record))) == 1
