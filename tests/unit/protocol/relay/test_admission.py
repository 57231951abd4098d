"""Admission to a relay: a licence for the inviter, the inviter's list of members, and members' passes."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest

from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import (
    MAX_ADMISSION_BYTES,
    Admit,
    CarrierKind,
    Credentials,
    Licences,
    Refused,
    Welcome,
    admitted_keys,
    check_members,
    read_admit,
    read_answer,
    sign_members,
    vouch,
    write_admission,
)
from protocol.wire.limits import MAX_MEMBERS

RELAY, INVITER, OTHER, LATE, LATER = (NodeKey(bytes([number]) * 32) for number in range(1, 6))
SWARM = bytes(32)
LICENCES = Licences(RELAY, "v8k2-qm4t")
SHOWN = Credentials(
    sign_members(INVITER, SWARM, (OTHER.public, INVITER.public)), LICENCES.give(INVITER.public)
)
ASKED = Admit(CarrierKind.BULK, (1 << 64) - 1, SHOWN)


def test_members_on_a_list_that_a_licensed_inviter_signed_are_admitted():
    assert SHOWN.members.keys == tuple(sorted((OTHER.public, INVITER.public)))
    for key in SHOWN.members.keys:
        assert admitted_keys(SHOWN, key, LICENCES) == {*SHOWN.members.keys}


def test_a_key_that_is_not_on_the_list_is_refused():
    with pytest.raises(RemoteProtocolError, match="not on the list"):
        admitted_keys(SHOWN, LATE.public, LICENCES)


@pytest.mark.parametrize(
    "change",
    [
        {"swarm": bytes([1]) * 32},
        {"keys": (OTHER.public,)},
        {"inviter": OTHER.public},
        {"signature": bytes(64)},
    ],
)
def test_a_list_that_was_changed_is_refused(change):
    members = replace(SHOWN.members, **change)
    with pytest.raises(RemoteProtocolError):
        check_members(members)
    with pytest.raises(RemoteProtocolError):
        admitted_keys(replace(SHOWN, members=members), OTHER.public, LICENCES)


@pytest.mark.parametrize("licences", [Licences(OTHER, "v8k2-qm4t"), Licences(RELAY, "v8k2-qm4u")])
def test_the_licence_of_another_relay_or_under_another_word_is_refused(licences):
    with pytest.raises(RemoteProtocolError):
        admitted_keys(replace(SHOWN, licence=licences.give(INVITER.public)), OTHER.public, LICENCES)


def test_a_relay_that_starts_again_knows_its_licences():
    admitted_keys(SHOWN, OTHER.public, Licences(NodeKey(bytes([1]) * 32), "v8k2-qm4t"))


def test_a_chain_of_passes_admits_later_members():
    chain = (vouch(OTHER, SWARM, LATE.public), vouch(LATE, SWARM, LATER.public))
    admitted_keys(replace(SHOWN, passes=chain[:1]), LATE.public, LICENCES)
    known = admitted_keys(replace(SHOWN, passes=chain), LATER.public, LICENCES)
    assert known == {*SHOWN.members.keys, LATE.public, LATER.public}


@pytest.mark.parametrize(
    "passes",
    [
        (vouch(LATE, SWARM, LATER.public),),
        (vouch(LATE, SWARM, LATER.public), vouch(OTHER, SWARM, LATE.public)),
        (vouch(OTHER, bytes([1]) * 32, LATER.public),),
        (replace(vouch(OTHER, SWARM, LATE.public), key=LATER.public),),
        (vouch(OTHER, SWARM, LATE.public),),
    ],
)
def test_a_chain_that_does_not_hold_is_refused(passes):
    with pytest.raises(RemoteProtocolError):
        admitted_keys(replace(SHOWN, passes=passes), LATER.public, LICENCES)


@pytest.mark.parametrize("record", [Welcome(25_000_000, 64_000_000, 200 * 10**9), Refused("full", False)])
def test_answers_are_read_as_they_were_written(record):
    assert read_answer(write_admission(record)) == record
    with pytest.raises(RemoteProtocolError):
        read_admit(write_admission(record))


def test_the_largest_question_is_read_as_it_was_written():
    shown = replace(
        SHOWN,
        members=sign_members(INVITER, SWARM, tuple(bytes([n]) * 32 for n in range(MAX_MEMBERS))),
        passes=(vouch(OTHER, SWARM, LATE.public),) * MAX_MEMBERS,
    )
    asked = replace(ASKED, credentials=shown)
    packed = write_admission(asked)
    assert len(packed) <= MAX_ADMISSION_BYTES
    assert read_admit(packed) == asked
    assert read_admit(packed).kind is CarrierKind.BULK
    with pytest.raises(RemoteProtocolError):
        read_answer(packed)


@pytest.mark.parametrize(
    ("place", "value"), [(2, 2), (2, True), (2, "x"), (3, -1), (3, 1.0), (4, []), (5, b""), (6, [[]])]
)
def test_a_question_beyond_the_limits_is_refused(place, value):
    values = msgpack.unpackb(write_admission(ASKED))
    part, place = (values, place) if place < 5 else (values[4], place - 4)
    part[place] = value
    with pytest.raises(RemoteProtocolError):
        read_admit(msgpack.packb(values))
