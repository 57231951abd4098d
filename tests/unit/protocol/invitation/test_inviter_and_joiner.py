"""An inviter and a joiner, from the knock to the confirmed list; and all who should not get there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.crypto.node_key import NodeKey
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.invitation.inviter import Host, News, Turn
from protocol.invitation.inviter import Phase as At
from protocol.invitation.joiner import Guest, Phase, place_of
from protocol.invitation.messages import (
    OPEN,
    Accept,
    Answer,
    Invitation,
    Knock,
    Proof,
    Reason,
    Refusal,
    Sealed,
    Share,
    Standing,
    State,
)
from protocol.invitation.roster import Member
from protocol.invitation.sealed import NO_SECRET, End, Exchange, Session, accepted_bytes, password_of
from protocol.invitation.words import read_code
from protocol.relay.admission import Relay
from protocol.wire.ids import NOBODY
from tests.invitations import (
    INVITATION,
    INVITER,
    JOINER,
    MEMBERS,
    NOW,
    OTHER,
    PLACE,
    RELAY,
    ROSTER,
    SEAT,
    TASK,
    UNTIL,
    Meeting,
    closed,
    joined,
    random,
)

WRONG = replace(PLACE, secret="otter-width-sale")


def refusal(meeting: Meeting) -> Refusal:
    assert meeting.phases == (At.OVER, Phase.OVER)
    assert meeting.guest.refusal is not None
    return meeting.guest.refusal


# -- the way in --------------------------------------------------------------------------------------


def test_who_has_the_code_reads_the_invitation():
    meeting = Meeting()
    assert meeting.phases == (At.REPLY, Phase.DECISION)
    assert meeting.guest.place.invitation == (INVITATION,)
    assert meeting.news == [News.INVITED]
    assert not meeting.host.seat.is_taken


def test_a_place_is_made_of_a_code():
    assert place_of(read_code("relay.example/48213-otter-width-salt")) == PLACE


def test_who_accepts_has_the_seat_and_waits_for_the_list():
    meeting = joined()
    assert meeting.phases == (At.LIST, Phase.LIST)
    assert meeting.news == [News.INVITED, News.JOINED]
    seat, place = meeting.host.seat, meeting.guest.place
    assert (seat.key, seat.standing, seat.tries) == (JOINER.public, Standing.ACCEPTED, 3)
    assert place.standing is Standing.ACCEPTED
    assert seat.resumption == place.resumption != NO_SECRET


@pytest.mark.parametrize("answer", [Standing.CONFIRMED, Standing.DECLINED])
def test_the_closed_list_is_answered_and_the_answer_is_kept(answer):
    meeting = joined().close_list()
    assert meeting.phases == (At.ANSWER, Phase.CHOICE)
    assert meeting.guest.place.roster == (ROSTER,)
    meeting.say(*meeting.guest.answer_list(answer))
    assert meeting.phases == (At.OVER, Phase.OVER)
    assert meeting.news[-1] is News.ANSWERED
    assert meeting.host.seat.standing is meeting.guest.place.standing is answer


def test_whose_data_do_not_fit_says_nothing_else_and_may_come_again():
    meeting = Meeting()
    meeting.say(*meeting.guest.decline_to_join())
    assert meeting.phases == (At.OVER, Phase.OVER)
    assert meeting.news == [News.INVITED, News.MISFIT]
    assert meeting.host.seat == SEAT
    assert joined(seat=meeting.host.seat, place=meeting.guest.place).host.seat.is_taken


# -- wrong codes -------------------------------------------------------------------------------------


def test_three_wrong_codes_burn_it_for_the_right_one_too():
    seat = SEAT
    for left in (2, 1, 0):
        meeting = Meeting(seat=seat, place=WRONG)
        assert refusal(meeting) == Refusal(Reason.WRONG, left)
        assert meeting.news == [News.WRONG]
        seat = meeting.host.seat
        assert seat == replace(SEAT, tries=left)
    meeting = Meeting(seat=seat)
    assert refusal(meeting) == Refusal(Reason.BURNT, 0)
    assert meeting.news == []
    assert len(meeting.heard) == 2


def test_a_joiner_proves_its_code_to_three_strangers_at_most():
    place = PLACE
    for count in (1, 2, 3):
        meeting = Meeting(seat=replace(SEAT, secret="otter-width-sale"), place=place)
        place = meeting.guest.place
        assert place.unanswered == count
        assert place.may_try == (count < 3)
    with pytest.raises(LocalProtocolError, match="proved too often"):
        Guest(place, JOINER, *random(1))


def test_an_inviter_that_proves_the_code_ends_the_count():
    assert Meeting(place=replace(PLACE, unanswered=2)).guest.place.unanswered == 0


def test_a_code_ends_after_its_day():
    assert Meeting(now=UNTIL - 1).phases == (At.REPLY, Phase.DECISION)
    assert refusal(Meeting(now=UNTIL)).reason is Reason.EXPIRED


def test_a_code_ends_when_the_list_is_closed():
    assert refusal(Meeting(roster=ROSTER)).reason is Reason.EXPIRED


def test_who_accepts_after_the_list_was_closed_comes_too_late():
    meeting = Meeting().close_list()
    assert meeting.phases == (At.REPLY, Phase.DECISION)
    meeting.say(*meeting.guest.accept())
    assert refusal(meeting).reason is Reason.EXPIRED
    assert not meeting.host.seat.is_taken


# -- a seat that is taken ----------------------------------------------------------------------------


def test_the_second_user_of_a_code_is_told_and_so_is_the_inviter():
    meeting = Meeting(seat=joined().host.seat, key=OTHER)
    assert refusal(meeting) == Refusal(Reason.USED, 3)
    assert meeting.news == [News.REUSED]
    assert meeting.guest.place.invitation == ()


def test_of_two_who_read_one_invitation_the_first_who_accepts_has_the_seat():
    first, second = Meeting(), Meeting(key=OTHER)
    first.say(*first.guest.accept())
    second.host.seat = first.host.seat
    second.say(*second.guest.accept())
    assert refusal(second) == Refusal(Reason.USED, 3)
    assert second.news == [News.INVITED, News.REUSED]
    assert second.host.seat.key == JOINER.public


def test_at_a_seat_that_is_taken_wrong_codes_still_count():
    seat = joined().host.seat
    for left in (2, 1, 0):
        meeting = Meeting(seat=seat, place=WRONG)
        assert refusal(meeting) == Refusal(Reason.WRONG, left)
        seat = meeting.host.seat
    assert refusal(Meeting(seat=seat)) == Refusal(Reason.USED, 0)


# -- coming back -------------------------------------------------------------------------------------


def back(meeting: Meeting, **change) -> Meeting:
    """A new connection of both, as they were kept."""
    return Meeting(**{"seat": meeting.host.seat, "place": meeting.guest.place, **change})


def test_who_accepted_comes_back_after_the_code_is_over_and_burnt():
    first = joined()
    seat = replace(first.host.seat, tries=0)
    meeting = back(first, seat=seat, now=UNTIL + 1)
    assert meeting.phases == (At.LIST, Phase.LIST)
    assert meeting.news == [News.BACK]
    assert meeting.close_list().phases == (At.ANSWER, Phase.CHOICE)


def test_who_comes_back_after_the_list_was_closed_gets_it():
    meeting = back(joined(), roster=ROSTER)
    assert meeting.phases == (At.ANSWER, Phase.CHOICE)


@pytest.mark.parametrize("answer", [Standing.CONFIRMED, Standing.DECLINED])
def test_an_answer_that_was_lost_is_told_again(answer):
    meeting = joined().close_list()
    meeting.guest.answer_list(answer)  # and the connection ends
    meeting = back(meeting, roster=ROSTER)
    assert meeting.phases == (At.OVER, Phase.OVER)
    assert meeting.host.seat.standing is answer


def test_an_answer_that_was_kept_is_final():
    meeting = joined().close_list()
    meeting.say(*meeting.guest.answer_list(Standing.DECLINED))
    with pytest.raises(RemoteProtocolError, match="State from an inviter"):
        back(meeting, roster=ROSTER, place=replace(meeting.guest.place, standing=Standing.CONFIRMED))


def test_nobody_answers_a_list_that_is_not_closed():
    meeting = joined()
    with pytest.raises(RemoteProtocolError, match="State from a joiner"):
        back(meeting, place=replace(meeting.guest.place, standing=Standing.CONFIRMED))


def test_nobody_is_back_outside():
    host, session = proved_host(joined().host.seat, is_back=True)
    with pytest.raises(RemoteProtocolError, match="State from a joiner"):
        host.receive(session.seal(State(Standing.OUTSIDE)), NOW)


def test_an_acceptance_that_was_lost_is_made_again():
    first = Meeting()
    first.guest.accept()  # and the connection ends
    meeting = back(first)
    assert refusal(meeting).reason is Reason.UNKNOWN
    assert meeting.guest.place == first.guest.place.__class__(
        *(PLACE.relay, PLACE.room, PLACE.secret), invitation=(INVITATION,)
    )
    again = back(meeting)
    again.say(*again.guest.accept())
    assert again.phases == (At.LIST, Phase.LIST)


def test_who_has_the_list_forgets_nothing():
    meeting = joined().close_list()
    place = meeting.guest.place
    assert Meeting(place=place).guest.place == place


def test_a_thief_of_the_code_cannot_come_back_in_anothers_place():
    thief = replace(PLACE, resumption=b"r" * 32, standing=Standing.ACCEPTED, invitation=(INVITATION,))
    seat = joined().host.seat
    meeting = Meeting(seat=seat, place=thief, key=OTHER)
    assert refusal(meeting) == Refusal(Reason.WRONG, 3)
    assert meeting.host.seat == seat
    assert meeting.news == []
    assert meeting.guest.place.unanswered == 0


# -- lies --------------------------------------------------------------------------------------------


def proved_host(seat=SEAT, *, is_back=False) -> tuple[Host, Session]:
    """A host, and a session with it by which a joiner may lie."""
    host = Host(seat, INVITATION, None, *random(7))
    answer = OPEN.read(host.receive(OPEN.write(Knock(b"n" * 16, is_back)), NOW).send[0])
    assert isinstance(answer, Answer)
    password = password_of(seat.secret, seat.resumption if is_back else NO_SECRET)
    exchange = Exchange(End.JOINER, b"\x05" * 32, password, seat.room, b"n" * 16 + answer.nonce)
    share = OPEN.read(host.receive(OPEN.write(Share(exchange.share)), NOW).send[0])
    assert isinstance(share, Share)
    session = exchange.finish(share.point)
    host.receive(session.proof, NOW)
    return host, session


def proved_guest(place=PLACE) -> tuple[Guest, Session]:
    """A guest, and a session with it by which an inviter may lie."""
    guest = Guest(place, JOINER, *random(8))
    knock = OPEN.read(guest.knock())
    assert isinstance(knock, Knock)
    password = password_of(place.secret, place.resumption)
    exchange = Exchange(End.INVITER, b"\x06" * 32, password, place.room, knock.nonce + b"m" * 16)
    share = OPEN.read(guest.receive(OPEN.write(Answer(b"m" * 16)))[0])
    assert isinstance(share, Share)
    session = exchange.finish(share.point)
    guest.receive(OPEN.write(Share(exchange.share)))
    guest.receive(session.proof)
    return guest, session


def test_an_acceptance_is_signed_for_this_session_and_invitation():
    host, session = proved_host()
    for body in (
        accepted_bytes(session, replace(INVITATION, others=())),
        accepted_bytes(proved_guest()[1], INVITATION),
    ):
        host, session = proved_host()
        accept = Accept(OTHER.public, OTHER.sign(b"invitation-accept", body))
        with pytest.raises(RemoteProtocolError, match="bad invitation-accept signature"):
            host.receive(session.seal(accept), NOW)
        assert host.seat.key == NOBODY


@pytest.mark.parametrize("said", [INVITATION, ROSTER, State(Standing.CONFIRMED)])
def test_a_joiner_answers_an_invitation_and_says_nothing_else(said):
    host, session = proved_host()
    with pytest.raises(RemoteProtocolError, match="from a joiner, instead of reply"):
        host.receive(session.seal(said), NOW)


def test_an_inviter_with_another_proof_is_no_inviter():
    guest = Guest(PLACE, JOINER, *random(8))
    guest.receive(OPEN.write(Answer(bytes(16))))
    guest.receive(OPEN.write(Share(b"\x09" + bytes(31))))
    with pytest.raises(RemoteProtocolError, match="does not know the code"):
        guest.receive(OPEN.write(Proof(bytes(64))))
    assert guest.place.unanswered == 1


@pytest.mark.parametrize("said", [State(Standing.ACCEPTED), ROSTER, Accept(bytes(32), bytes(64))])
def test_an_inviter_begins_with_the_invitation(said):
    guest, session = proved_guest()
    with pytest.raises(RemoteProtocolError, match="from an inviter, instead of invitation"):
        guest.receive(session.seal(said))


@pytest.mark.parametrize(
    "message", [OPEN.write(Answer(bytes(16))), OPEN.write(Share(bytes(32))), OPEN.write(Sealed(b"box"))]
)
def test_a_host_hears_only_what_it_waits_for(message):
    host = Host(SEAT, INVITATION, None, *random(7))
    with pytest.raises(RemoteProtocolError, match="from a joiner, instead of knock"):
        host.receive(message, NOW)
    with pytest.raises(RemoteProtocolError, match="from a joiner, instead of closed list"):
        joined().host.receive(message, NOW)


@pytest.mark.parametrize("message", [OPEN.write(Knock(bytes(16), False)), OPEN.write(Sealed(b"box"))])
def test_a_guest_hears_only_what_it_waits_for(message):
    with pytest.raises(RemoteProtocolError, match="from an inviter, instead of answer"):
        Guest(PLACE, JOINER, *random(8)).receive(message)


@pytest.mark.parametrize("meeting", [Meeting, joined])
def test_who_is_inside_is_refused_no_more(meeting):
    with pytest.raises(RemoteProtocolError, match="Refusal from an inviter"):
        meeting().guest.receive(OPEN.write(Refusal(Reason.BURNT, 0)))


def test_nobody_decides_before_there_is_something_to_decide():
    for act in (Guest.accept, Guest.decline_to_join, lambda guest: guest.answer_list(Standing.CONFIRMED)):
        with pytest.raises(LocalProtocolError):
            act(Guest(PLACE, JOINER, *random(8)))


@pytest.mark.parametrize(
    ("roster", "wrong"),
    [
        (replace(ROSTER, signature=bytes(64)), "bad relay-members signature"),
        (closed(inviter=OTHER), "without its inviter or this node"),
        (closed((MEMBERS[0], replace(MEMBERS[1], name="Ward C"))), "without its inviter or this node"),
        (closed((MEMBERS[0], Member("Ward B", OTHER.public))), "without its inviter or this node"),
        (closed((replace(MEMBERS[0], name="Ward X"), MEMBERS[1])), "without its inviter or this node"),
        (closed((*MEMBERS[:2], Member("Ward X", OTHER.public))), "a name that the invitation does not have"),
        (closed((*MEMBERS, Member("Ward D", NodeKey(b"d" * 32).public))), "a name that the invitation"),
        (closed(task=TASK + b"#"), "another task or other relays"),
        (
            closed(relays=(Relay("evil.example:443", RELAY.public, bytes(64)),)),
            "another task or other relays",
        ),
    ],
)
def test_a_list_that_the_invitation_did_not_promise_is_refused(roster, wrong):
    meeting = joined()
    with pytest.raises(RemoteProtocolError, match=wrong):
        meeting.close_list(roster)
    assert meeting.guest.place.roster == ()


def test_a_list_may_have_fewer_members_than_were_invited():
    meeting = joined().close_list(closed(MEMBERS[:2]))
    assert meeting.phases == (At.ANSWER, Phase.CHOICE)


def test_a_receipt_that_says_something_else_is_refused():
    meeting = joined().close_list()
    meeting.guest.answer_list(Standing.CONFIRMED)
    with pytest.raises(RemoteProtocolError, match="State from an inviter"):
        meeting.answer(*lying_receipt(meeting))


def lying_receipt(meeting: Meeting) -> tuple[bytes, ...]:
    session = meeting.host._held
    assert isinstance(session, Session)
    return (session.seal(State(Standing.DECLINED)),)


def test_a_list_closed_while_nobody_waits_is_kept_for_later():
    host = Host(SEAT, INVITATION, None, *random(7))
    assert host.close_list(ROSTER) == Turn()
    assert host.phase is At.KNOCK


# -- an interceptor ----------------------------------------------------------------------------------


def test_an_interceptor_who_hears_all_learns_neither_task_nor_keys():
    meeting = joined().close_list()
    meeting.say(*meeting.guest.answer_list(Standing.CONFIRMED))
    said = b"".join(message for _, message in meeting.heard)
    for secret in (TASK, b"Ward", *(key.public for key in (INVITER, JOINER, OTHER, RELAY)), b"relay.example"):
        assert secret not in said


def test_an_interceptor_cannot_join_with_what_it_heard():
    heard = [message for end, message in joined().heard if end is End.JOINER]
    host = Host(SEAT, INVITATION, None, b"o" * 16, b"\x0b" * 32)
    for message in heard[:2]:
        host.receive(message, NOW)
    turn = host.receive(heard[2], NOW)
    assert turn.news is News.WRONG
    assert host.phase is At.OVER


def test_an_interceptor_between_the_two_has_no_session_with_either():
    """It answers in each one's place with shares of its own, and passes the proofs on."""
    host, guest = Host(SEAT, INVITATION, None, *random(7)), Guest(PLACE, JOINER, *random(8))
    (answer,) = host.receive(guest.knock(), NOW).send
    guest.receive(answer)
    own = Exchange(End.JOINER, b"\x0c" * 32, b"a guess", SEAT.room, bytes(32)).share
    (proof,) = guest.receive(OPEN.write(Share(own)))
    host.receive(OPEN.write(Share(own)), NOW)
    turn = host.receive(proof, NOW)
    assert turn.news is News.WRONG
    assert host.seat.tries == 2
    assert guest.place.unanswered == 1


@pytest.mark.parametrize("position", range(12))
def test_a_message_that_is_changed_on_the_way_ends_the_connection_and_joins_nobody(position):
    """Each byte string in turn, its last bit flipped."""
    host, guest = Host(SEAT, INVITATION, None, *random(7)), Guest(PLACE, JOINER, *random(8))
    sent = 0

    def passed_on(message: bytes) -> bytes:
        nonlocal sent
        sent += 1
        return message[:-1] + bytes([message[-1] ^ 1]) if sent == position + 1 else message

    waiting = [guest.knock()]
    try:
        while waiting:
            turn = host.receive(passed_on(waiting.pop(0)), NOW)
            for message in turn.send:
                waiting += guest.receive(passed_on(message))
                if guest.phase is Phase.DECISION:
                    waiting += guest.accept()
    except RemoteProtocolError:
        pass
    is_whole = sent <= position
    assert (host.phase, guest.phase) == (At.LIST, Phase.LIST) if is_whole else guest.phase is not Phase.LIST
    assert is_whole or not host.seat.is_taken or guest.place.standing is Standing.ACCEPTED


def test_shares_of_small_order_end_the_connection():
    host = Host(SEAT, INVITATION, None, *random(7))
    host.receive(OPEN.write(Knock(bytes(16), False)), NOW)
    with pytest.raises(RemoteProtocolError, match="small order"):
        host.receive(OPEN.write(Share(bytes(32))), NOW)


def test_the_longest_names_and_most_members_fit():
    others = tuple("\U0001f426" * 38 + f"{number:02}" for number in range(62))
    meeting = Meeting(invitation=replace(INVITATION, others=others))
    assert meeting.phases == (At.REPLY, Phase.DECISION)
    assert isinstance(meeting.guest.place.invitation[0], Invitation)
