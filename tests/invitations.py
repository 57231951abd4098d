"""An inviter and joiners, without a relay: what one says the other gets."""

from __future__ import annotations

from protocol.crypto.node_key import NodeKey
from protocol.invitation.inviter import Host, News, Seat
from protocol.invitation.joiner import Guest, Place
from protocol.invitation.messages import Invitation
from protocol.invitation.roster import Member, Roster, close_list
from protocol.invitation.sealed import End
from protocol.relay.admission import Relay

INVITER, JOINER, OTHER, RELAY = (NodeKey(bytes([number]) * 32) for number in (1, 2, 3, 4))
TASK = b'[task]\nname = "ward"\n'
RELAYS = (Relay("relay.example:443", RELAY.public, bytes(64)),)
NOW, UNTIL = 1_000_000, 1_086_400
SECRET_WORDS = "otter-width-salt"
SEAT = Seat("Ward B", "48213", SECRET_WORDS, UNTIL)
PLACE = Place("relay.example:443", "48213", SECRET_WORDS)
INVITATION = Invitation("ward", "Ward A", INVITER.public, "Ward B", ("Ward C",), TASK, RELAYS, UNTIL)
MEMBERS = (Member("Ward A", INVITER.public), Member("Ward B", JOINER.public), Member("Ward C", OTHER.public))


def closed(members=MEMBERS, inviter=INVITER, task=TASK, relays=RELAYS) -> Roster:
    return close_list(inviter, members, task, relays, bytes(16))


ROSTER = closed()


def random(number: int) -> tuple[bytes, bytes]:
    """A nonce and a scalar."""
    return bytes([number]) * 16, bytes([number]) * 32


class Meeting:
    """A guest in the room of a host. `heard`: all that went over the relay, by sender."""

    def __init__(
        self, seat=SEAT, place=PLACE, roster=None, invitation=INVITATION, key=JOINER, now=NOW
    ) -> None:
        self.host = Host(seat, invitation, roster, *random(7))
        self.guest = Guest(place, key, *random(8))
        self.now = now
        self.news: list[News] = []
        self.heard: list[tuple[End, bytes]] = []
        self.say(self.guest.knock())

    def say(self, *messages: bytes) -> Meeting:
        """The guest says these, and each end answers the other until nobody has more to say."""
        for message in messages:
            self.heard.append((End.JOINER, message))
            turn = self.host.receive(message, self.now)
            self.news += [turn.news] if turn.news is not None else []
            self.answer(*turn.send)
        return self

    def answer(self, *messages: bytes) -> Meeting:
        """The host says these."""
        for message in messages:
            self.heard.append((End.INVITER, message))
            self.say(*self.guest.receive(message))
        return self

    def close_list(self, roster=ROSTER) -> Meeting:
        """The inviter closes the list."""
        return self.answer(*self.host.close_list(roster).send)

    @property
    def phases(self):
        """Of host and guest."""
        return self.host.phase, self.guest.phase


def joined(**change) -> Meeting:
    """A meeting in which the guest has accepted."""
    meeting = Meeting(**change)
    return meeting.say(*meeting.guest.accept())
