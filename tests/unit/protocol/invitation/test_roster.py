"""The list of members: whose signature it has, and what it may hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.invitation.messages import SECRET
from protocol.invitation.roster import Member, check_roster, same_name, task_digest, vouch_for
from protocol.relay.admission import Licences, Relay, admitted_keys, check_members
from protocol.wire import signing
from protocol.wire.fields import is_name
from tests.invitations import INVITER, JOINER, MEMBERS, OTHER, RELAY, ROSTER, closed


def test_a_closed_list_is_read_as_it_was_sent_and_is_admitted_to_relays():
    assert SECRET.read(SECRET.write(ROSTER)) == ROSTER
    check_roster(ROSTER)
    check_members(ROSTER.admission)
    assert ROSTER.admission.swarm == ROSTER.digest
    assert [member.key for member in ROSTER.members] == sorted(member.key for member in MEMBERS)


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": b"n" * 16},
        {"inviter": OTHER.public},
        {"members": ROSTER.members[:2]},
        {"members": (replace(ROSTER.members[0], name="Ward X"), *ROSTER.members[1:])},
        {"task": task_digest(b"another")},
        {"relays": ()},
        {"relays": (Relay("other.example:443", RELAY.public, bytes(64)),)},
        {"signature": bytes(64)},
    ],
)
def test_a_list_that_was_changed_has_no_signature_and_all_but_the_signature_make_its_digest(change):
    changed = replace(ROSTER, **change)
    with pytest.raises(RemoteProtocolError):
        check_roster(changed)
    assert (changed.digest == ROSTER.digest) == ("signature" in change)


@pytest.mark.parametrize(
    ("roster", "wrong"),
    [
        (closed(MEMBERS[1:]), "its inviter is not on"),
        (closed((*MEMBERS[:2], Member("WARD B", OTHER.public))), 'two members would be called "WARD B"'),
        (closed((*MEMBERS[:2], Member("Ward C", JOINER.public))), "do not ascend"),
        (replace(ROSTER, members=ROSTER.members[::-1]), "do not ascend"),
        (replace(ROSTER, members=ROSTER.members[:1] * 2), "do not ascend"),
    ],
    ids=["without its inviter", "a name twice", "a key twice", "out of order", "a member twice"],
)
def test_a_list_that_was_never_right_is_refused(roster, wrong):
    with pytest.raises(RemoteProtocolError, match=wrong):
        check_roster(roster)


@pytest.mark.parametrize("name", ["", " Ward", "Ward ", "Ward\n", "Ward\u202e", "W" * 41, "\x1b[2J", 7])
def test_what_cannot_be_shown_is_no_name(name):
    assert not isinstance(name, str) or not is_name(name)
    packed = SECRET.write(replace(ROSTER, members=(Member(name, INVITER.public),)))
    with pytest.raises(RemoteProtocolError, match="a member's name"):
        SECRET.read(packed)


@pytest.mark.parametrize(
    ("names", "twice"),
    [
        (("Ward A", "Ward B"), None),
        (("Ward A", "ward a"), "ward a"),
        (("Straße", "STRASSE"), "STRASSE"),
        (("\uff37ard", "Ward"), "Ward"),
        (("Zoe\u0308", "Zo\u00eb"), "Zo\u00eb"),
    ],
)
def test_names_that_people_would_confuse_are_one(names, twice):
    assert same_name(names) == twice


LATE, LATER = (NodeKey(bytes([number]) * 32) for number in (5, 6))
BY_MEMBER = vouch_for(JOINER, ROSTER, Member("Ward D", LATE.public))
BY_LATE = vouch_for(LATE, ROSTER, Member("ward c", LATER.public))
GROWN = ROSTER.with_word(BY_MEMBER).with_word(BY_LATE)


def test_later_members_come_by_the_word_of_earlier_ones_and_leave_the_list_as_it_is():
    check_roster(GROWN)
    assert SECRET.read(SECRET.write(GROWN)) == GROWN
    assert (GROWN.digest, GROWN.admission) == (ROSTER.digest, ROSTER.admission)
    assert GROWN.keys == {key.public for key in (INVITER, JOINER, OTHER, LATE, LATER)}
    sponsors = [GROWN.sponsor(key.public) for key in (OTHER, LATE, LATER)]
    assert sponsors == [INVITER.public, JOINER.public, LATE.public]
    licences = Licences(RELAY, "v8k2-qm4t")
    shown = GROWN.credentials(Relay("relay.example:443", RELAY.public, licences.give(INVITER.public)))
    assert admitted_keys(shown, LATER.public, licences) == GROWN.keys


def test_who_has_the_name_of_an_earlier_member_takes_its_place():
    assert [each.name for each in GROWN.everyone][-2:] == ["Ward D", "ward c"]
    assert len(GROWN.everyone) == len(ROSTER.members) + 1
    assert GROWN.named("Ward C").key == LATER.public
    assert GROWN.named("Ward X") is None


@pytest.mark.parametrize(
    "later",
    [
        (BY_LATE,),
        (BY_LATE, BY_MEMBER),
        (BY_MEMBER, BY_MEMBER),
        (replace(BY_MEMBER, name="Ward E"),),
        (replace(BY_MEMBER, key=LATER.public),),
        (replace(BY_MEMBER, member=OTHER.public),),
        (vouch_for(JOINER, closed(MEMBERS[:2]), Member("Ward D", LATE.public)),),
        (signing.sign(replace(BY_MEMBER, admission=bytes(64)), JOINER),),
    ],
)
def test_a_later_member_without_a_word_that_holds_is_refused(later):
    with pytest.raises(RemoteProtocolError):
        check_roster(replace(ROSTER, later=later))
