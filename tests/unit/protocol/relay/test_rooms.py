"""The rooms of a relay: who gets one, who is let in, what is piped, and all bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.crypto.cpace import Agreed
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Credentials, Licences, Refused, sign_members, vouch
from protocol.relay.buckets import Rate
from protocol.relay.room_messages import (
    MAX_JOINER_BYTES,
    MAX_ROOMS,
    Bar,
    Barred,
    CloseRoom,
    Dismiss,
    Entered,
    Knocked,
    Left,
    OpenRooms,
    Proved,
    Rooms,
    Said,
    read_to_inviter,
    read_to_joiner,
    write_room_message,
)
from protocol.relay.rooms import (
    BOUNDS,
    DAY_S,
    HOUR_S,
    NO_ROOM_LEFT,
    OTHER_WORD,
    TOO_MANY_ROOMS,
    TOO_MANY_WORDS,
    WRONG_WORD,
    Hang,
    Lobby,
    Tell,
)
from tests.relay_rooms import word_share

WORD = "v8k2-qm4t"
LICENCES = Licences(NodeKey(bytes([1]) * 32), WORD)
INVITER, RIVAL = bytes([2]) * 32, bytes([3]) * 32
RANDOM = b"".join(number.to_bytes(4, "big") for number in range(MAX_ROOMS))


class Relay:
    """A lobby, and what it says, read."""

    def __init__(self, bounds=BOUNDS):
        self.lobby = Lobby(LICENCES, WORD, 0.0, bounds)
        self.keys = {}

    def come(self, link="inviter", key=INVITER, address="a"):
        self.keys[link] = key
        self.lobby.meet_inviter(link, key, address)

    def say(self, message, link="inviter", random=RANDOM, now_s=0.0):
        return read(self.lobby.hear_inviter(link, write_room_message(message), random, now_s))

    def open(self, more=1, keep=(), word=WORD, licence=b"", link="inviter", now_s=0.0, random=RANDOM):
        """What follows, without the relay's proof of the word, which must be there."""
        tags = Agreed(b"", b"", b"") if licence else self.exchange(word, link)
        told = self.say(OpenRooms(tags.own, licence, keep, more), link, random, now_s)
        assert all(answer.proof == tags.others for _, answer in told if isinstance(answer, Rooms))
        return [
            (to, replace(answer, proof=b"") if isinstance(answer, Rooms) else answer) for to, answer in told
        ]

    def exchange(self, word=WORD, link="inviter"):
        exchange, share = word_share(word, LICENCES.relay, self.keys[link])
        ((_, answer),) = self.say(share, link)
        return exchange.finish(answer.point)

    def knock(self, link="joiner", room="00000", address="j", now_s=0.0):
        return read(self.lobby.knock(link, room, address, now_s))


def read(outputs):
    """Outputs as (link, message) and, for a link that is closed, (link, None)."""
    return [
        (each.link, _read(each.link, each.message)) if isinstance(each, Tell) else (each.link, None)
        for each in outputs
    ]


def _read(link, message):
    try:
        return (read_to_joiner if "joiner" in link else read_to_inviter)(message)
    except RemoteProtocolError:
        return message


def opened() -> Relay:
    """A relay with room 00000."""
    made = Relay()
    made.come()
    made.open()
    return made


def visited() -> Relay:
    """A relay with a joiner in room 00000."""
    made = opened()
    assert made.knock() == [("joiner", Entered()), ("inviter", Knocked("00000", 1))]
    return made


def proved() -> Relay:
    """The same, after the joiner's proof."""
    made = visited()
    assert made.say(Proved("00000", 1)) == []
    return made


def leave(relay: Relay) -> None:
    assert read(relay.lobby.lose_joiner("joiner")) == [("joiner", None), ("inviter", Left("00000", 1))]


def dismiss(relay: Relay) -> None:
    assert relay.say(Dismiss("00000", 1)) == [("joiner", None)]


def be_late(relay: Relay) -> None:
    assert read(relay.lobby.tick(60.0)) == [("joiner", None), ("inviter", Left("00000", 1))]


def close(relay: Relay) -> None:
    assert relay.say(CloseRoom("00000")) in ([], [("joiner", None)])
    assert relay.lobby.rooms == 0


@pytest.fixture
def relay() -> Relay:
    """A relay with a joiner in room 00000."""
    return visited()


# -- who gets a room ---------------------------------------------------------------------------------


def test_the_word_gives_rooms_and_a_licence_and_the_licence_gives_more():
    relay = Relay()
    relay.come()
    assert not relay.lobby.is_inviter("inviter")
    licence = LICENCES.give(INVITER)
    assert relay.open(2) == [("inviter", Rooms(licence, ("00000", "00001")))]
    assert relay.lobby.is_inviter("inviter")
    assert relay.open(1, word="", licence=licence) == [("inviter", Rooms(licence, ("00002",)))]
    assert relay.lobby.rooms == 3


def test_a_member_of_a_swarm_by_this_relay_opens_rooms_that_count_as_those_of_its_licensee():
    owner, member, late = (NodeKey(bytes([number]) * 32) for number in (4, 5, 6))
    listed = sign_members(owner, bytes(32), (owner.public, member.public))
    shown = Credentials(listed, LICENCES.give(owner.public), (vouch(member, bytes(32), late.public),))
    relay = Relay()
    for link, key in (("by list", member), ("by pass", late), ("stranger", NodeKey(bytes([7]) * 32))):
        relay.come(link, key.public)
    assert relay.say(OpenRooms(b"", b"", (), 60, (shown,)), "by list")[0][1].licence == shown.licence
    few, many = (OpenRooms(b"", b"", (), more, (shown,)) for more in (4, 5))
    assert relay.say(many, "by pass") == [("by pass", Refused(TOO_MANY_ROOMS, True)), ("by pass", None)]
    assert len(relay.say(few, "by pass")[0][1].digits) == 4
    refused = Refused("this key is not on the list of its swarm", True)
    assert relay.say(few, "stranger") == [("stranger", refused), ("stranger", None)]


def test_digits_that_are_taken_are_not_drawn_again():
    relay = Relay()
    relay.come()
    last = (10**5 - 1).to_bytes(4, "big")
    (_, rooms), *_ = relay.open(3, random=last * 3)
    assert rooms.digits == ("99999", "00000", "00001")


def test_an_inviter_without_word_or_licence_is_refused():
    relay = Relay()
    relay.come()
    assert relay.open(word="v8k2-qm4u") == [("inviter", Refused(WRONG_WORD, True)), ("inviter", None)]
    other = LICENCES.give(RIVAL)
    assert relay.open(word="", licence=other) == [("inviter", Refused(OTHER_WORD, True)), ("inviter", None)]
    assert relay.lobby.rooms == 0
    with pytest.raises(RemoteProtocolError):
        relay.say(CloseRoom("00000"))


def test_a_proof_of_the_word_is_good_once_and_only_after_an_exchange():
    relay = Relay()
    relay.come()
    assert relay.say(OpenRooms(bytes(64), b"", (), 1))[0] == ("inviter", Refused(WRONG_WORD, True))
    tags = relay.exchange()
    with pytest.raises(RemoteProtocolError):
        relay.exchange()
    for proof in (tags.own, tags.own):
        answer = relay.say(OpenRooms(proof, b"", (), 1))[0][1]
    assert answer == Refused(WRONG_WORD, True)
    relay.exchange()
    answer = relay.say(OpenRooms(b"", LICENCES.give(INVITER), (), 0))[0][1]
    assert answer.proof == b""  # who has not proved the word gets nothing to test guesses by


def test_wrong_words_of_an_address_are_bounded():
    relay = Relay()
    relay.come()
    for _ in range(10):
        assert relay.open(word="wrong")[0] == ("inviter", Refused(WRONG_WORD, True))
    assert relay.open()[0] == ("inviter", Refused(TOO_MANY_WORDS, False))
    assert relay.open(word="", licence=LICENCES.give(INVITER))[0][1].digits == ("00000",)
    relay.come("other inviter", RIVAL, "b")
    assert relay.open(link="other inviter")[0][1].digits == ("00001",)
    relay.come("third inviter", bytes([4]) * 32, "a")
    assert relay.open(link="third inviter", now_s=HOUR_S / 10)[0][1].digits == ("00002",)


def test_wrong_words_of_all_addresses_are_bounded():
    relay = Relay(replace(BOUNDS, wrong_words=Rate(2, 1 / HOUR_S)))
    for number in range(3):
        relay.come(number, INVITER, f"address {number}")
    assert [
        relay.lobby.hear_inviter(n, write_room_message(OpenRooms(b"x", b"", (), 1)), RANDOM, 0.0)[0].message
        for n in range(3)
    ] == [
        write_room_message(Refused(WRONG_WORD, True)),
        write_room_message(Refused(WRONG_WORD, True)),
        write_room_message(Refused(TOO_MANY_WORDS, False)),
    ]


def test_rooms_are_bounded_for_one_inviter_and_in_all():
    relay = Relay(replace(BOUNDS, rooms=70))
    relay.come()
    relay.open(MAX_ROOMS)
    assert relay.open(1) == [("inviter", Refused(TOO_MANY_ROOMS, True)), ("inviter", None)]
    relay.come("rival inviter", RIVAL)
    assert relay.open(7, link="rival inviter")[0] == ("rival inviter", Refused(NO_ROOM_LEFT, False))
    assert len(relay.open(6, link="rival inviter")[0][1].digits) == 6


def test_an_inviter_that_comes_again_takes_its_rooms_over(relay):
    relay.come("again inviter")
    told = relay.open(0, ("00000",), link="again inviter")
    assert told == [
        ("joiner", None),
        ("inviter", None),
        ("again inviter", Rooms(LICENCES.give(INVITER), ("00000",))),
    ]
    assert relay.lobby.lose_inviter("inviter") == []
    assert relay.lobby.lose_joiner("joiner") == []
    assert relay.knock("next joiner")[1] == ("again inviter", Knocked("00000", 2))


def test_a_relay_that_started_again_gives_rooms_back_but_not_those_of_another():
    relay = Relay()
    relay.come("rival inviter", RIVAL)
    relay.open(link="rival inviter")
    relay.come()
    told = relay.open(1, ("00000", "12345", "12345"))
    assert told == [("inviter", Rooms(LICENCES.give(INVITER), ("12345", "00001")))]
    assert relay.say(CloseRoom("00000")) == []
    assert relay.knock()[1] == ("rival inviter", Knocked("00000", 1))


# -- what happens in a room --------------------------------------------------------------------------


def test_messages_are_piped_both_ways_as_they_are(relay):
    assert read(relay.lobby.hear_joiner("joiner", b"ya")) == [("inviter", Said("00000", 1, b"ya"))]
    assert relay.say(Said("00000", 1, b"yb")) == [("joiner", b"yb")]


def test_what_is_said_to_an_earlier_joiner_reaches_nobody(relay):
    leave(relay)
    assert relay.say(Said("00000", 1, b"late")) == []
    relay.knock("next joiner")
    assert relay.say(Said("00000", 1, b"late")) == []
    assert relay.say(Dismiss("00000", 1)) == []
    assert relay.say(Said("00000", 2, b"now")) == [("next joiner", b"now")]


def test_beside_who_has_proved_the_code_one_more_may_try_to():
    relay = proved()
    assert relay.knock("second joiner")[1] == ("inviter", Knocked("00000", 2))
    assert relay.knock("third joiner")[0] == ("third joiner", Barred(Bar.TAKEN))
    assert relay.say(Said("00000", 1, b"you wait")) == [("joiner", b"you wait")]
    assert relay.say(Said("00000", 2, b"used")) == [("second joiner", b"used")]
    assert read(relay.lobby.tick(60.0)) == [("second joiner", None), ("inviter", Left("00000", 2))]
    relay.knock("second joiner", now_s=60.0)
    relay.say(Proved("00000", 3))
    assert relay.knock("third joiner", now_s=60.0)[0] == ("third joiner", Barred(Bar.TAKEN))
    assert relay.say(CloseRoom("00000")) == [("joiner", None), ("second joiner", None)]


def test_nobody_comes_in_while_somebody_is_about_to_prove_the_code(relay):
    assert relay.lobby.is_inside("joiner")
    assert not relay.lobby.is_inside("second joiner")
    assert relay.knock("second joiner") == [("second joiner", Barred(Bar.TAKEN)), ("second joiner", None)]
    dismiss(relay)
    assert relay.lobby.hear_joiner("joiner", b"still here") == []
    assert relay.knock("second joiner")[0] == ("second joiner", Entered())


def test_a_joiner_proves_the_code_within_a_minute_or_goes(relay):
    assert relay.lobby.deadline == BOUNDS.proof_s
    assert relay.lobby.tick(59.9) == []
    be_late(relay)
    assert relay.lobby.deadline == DAY_S
    relay.knock("next joiner", now_s=61.0)
    assert relay.say(Proved("00000", 2)) == []
    assert relay.say(Proved("00000", 2)) == []
    assert relay.lobby.tick(1000.0) == []
    assert relay.lobby.deadline == DAY_S
    assert read(relay.lobby.lose_joiner("next joiner"))[1] == ("inviter", Left("00000", 2))


def test_a_joiner_says_little_before_its_proof_and_much_after(relay):
    assert relay.lobby.hear_joiner("joiner", bytes(8000))
    with pytest.raises(RemoteProtocolError):
        relay.lobby.hear_joiner("joiner", bytes(200))
    relay.say(Proved("00000", 1))
    assert relay.lobby.hear_joiner("joiner", bytes(MAX_JOINER_BYTES))
    with pytest.raises(RemoteProtocolError):
        relay.lobby.hear_joiner("joiner", bytes(MAX_JOINER_BYTES + 1))


def test_a_closed_room_lets_nobody_in(relay):
    close(relay)
    assert relay.knock("next joiner") == [("next joiner", Barred(Bar.NO_ROOM)), ("next joiner", None)]
    relay.open()
    close(relay)
    assert relay.lobby.tick(60.0) == []  # nobody is there any more who would have had to prove the code
    assert relay.lobby.deadline is None
    assert relay.lobby.tick(70.0) == []


def test_a_room_ends_after_a_day():
    relay = proved()
    assert read(relay.lobby.tick(DAY_S)) == [("joiner", None)]
    relay.open()
    assert relay.knock(now_s=DAY_S)[0] == ("joiner", Barred(Bar.NO_ROOM)), "even before the tick"


def test_a_room_without_its_inviter_lets_nobody_in(relay):
    assert read(relay.lobby.lose_inviter("inviter")) == [("joiner", None)]
    assert relay.knock()[0] == ("joiner", Barred(Bar.NOBODY))
    assert relay.lobby.lose_inviter("inviter") == []


def test_knocks_are_bounded_at_a_room_and_from_an_address():
    relay = Relay()
    relay.come()
    relay.open(2)
    for number in range(6):
        assert relay.knock(f"joiner {number}", address=number)[0][1] == Entered()
        relay.lobby.lose_joiner(f"joiner {number}")
    assert relay.knock(address="new")[0] == ("joiner", Barred(Bar.TOO_OFTEN))
    for _ in range(30):
        assert relay.knock(room="77777", address="one")[0] == ("joiner", Barred(Bar.NO_ROOM))
    assert relay.knock(room="00001", address="one")[0] == ("joiner", Barred(Bar.TOO_OFTEN))
    assert relay.knock(room="00001", address="two")[0] == ("joiner", Entered())
    assert relay.knock(address="new", now_s=10.0)[0] == ("joiner", Entered())


def test_an_output_names_its_link():
    assert Hang("x").link == Tell("x", b"").link
