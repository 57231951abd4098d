"""The rooms of a relay: where a joiner meets the inviter whose code it has. The relay reads nothing of it.

An inviter proves the relay's word, or shows the licence that it once got for it, and opens rooms. So does a
member of a swarm by this relay: its rooms count as those of whoever has the swarm's licence. Whoever names a
room's digits is let in while the inviter is connected; then each message of the one end goes to the other. A
joiner must prove within a minute, to the inviter, that it knows the code: nobody else comes in meanwhile. So
the relay limits how fast anybody can find rooms and try codes, and the inviter's machine counts the tries.
Beside a joiner that has proved it there is place for one more: whoever brings the same code is told by the
inviter, and the inviter hears of it, that the code is used.

Nothing is stored. `Lobby` takes what its websockets hear, and returns what to send and what to close.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import count

from protocol.crypto.cpace import SCALAR_BYTES, Agreed
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Licences, Refused, admitted_keys
from protocol.relay.buckets import Bucket, Buckets, Rate
from protocol.relay.room_messages import (
    ALL_DIGITS,
    DIGITS,
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
    Rooms,
    Said,
    WordShare,
    read_from_inviter,
    write_room_message,
)
from protocol.relay.word import RELAY, word_run
from protocol.transitions import Course, Step
from protocol.wire.ids import Key

Link = Hashable
"""A websocket, by whatever the shell knows it."""
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
RANDOM_BYTES = 4
"""Random bytes for a new room."""
KNOWN_ADDRESSES = 4096
MOST_INSIDE = 2
"""Joiners in a room: one that the inviter has accepted, and one that brings the same code."""
WRONG_WORD = "that is not this relay's word: ask who runs it"
OTHER_WORD = "this relay's word was changed: ask who runs it for the new one"
TOO_MANY_WORDS = "too many wrong words came to this relay: try again in an hour"
NO_ROOM_LEFT = "all rooms of this relay are taken: try again later"
TOO_MANY_ROOMS = f"an inviter, with all whom it invited, has at most {MAX_ROOMS} rooms"


_KNOCKS, _KNOCKS_OF_ADDRESS = Rate(6, 6 / MINUTE_S), Rate(30, 30 / MINUTE_S)
_WRONG_WORDS, _WRONG_WORDS_OF_ADDRESS = Rate(600, 600 / HOUR_S), Rate(10, 10 / HOUR_S)


@dataclass(frozen=True)
class RoomBounds:
    """How many rooms there are, and how fast somebody can try them."""

    rooms: int = 256
    life_s: float = DAY_S
    proof_s: float = MINUTE_S
    unproved_bytes: int = 8192
    """What a joiner may say before its proof."""
    knocks: Rate = _KNOCKS
    """At one room."""
    knocks_of_address: Rate = _KNOCKS_OF_ADDRESS
    wrong_words: Rate = _WRONG_WORDS
    wrong_words_of_address: Rate = _WRONG_WORDS_OF_ADDRESS


BOUNDS = RoomBounds()


class Phase(Enum):
    """How far a visit to a room is."""

    UNPROVED = "unproved"
    PROVED = "proved"
    OVER = "over"


class Event(Enum):
    """What changes it. It begins when a joiner knocks, and the inviter is connected."""

    PROOF = "the inviter says that the joiner knows the code"
    LEAVE = "the joiner or the inviter has gone"
    DISMISSAL = "the inviter sends the joiner away"
    LATE = "60 s without a proof"
    END = "the inviter closes the room, or its day is over"


_LEFT = "the inviter hears that the joiner has left"
_AWAY = "the joiner is sent away"
STEPS = {
    (Phase.UNPROVED, Event.PROOF): Step(Phase.PROVED, ""),
    (Phase.UNPROVED, Event.LEAVE): Step(Phase.OVER, _LEFT),
    (Phase.UNPROVED, Event.DISMISSAL): Step(Phase.OVER, _AWAY),
    (Phase.UNPROVED, Event.LATE): Step(Phase.OVER, f"{_AWAY}; {_LEFT}"),
    (Phase.UNPROVED, Event.END): Step(Phase.OVER, _AWAY),
    (Phase.PROVED, Event.LEAVE): Step(Phase.OVER, _LEFT),
    (Phase.PROVED, Event.DISMISSAL): Step(Phase.OVER, _AWAY),
    (Phase.PROVED, Event.END): Step(Phase.OVER, _AWAY),
}


@dataclass(frozen=True, slots=True)
class Tell:
    """Send this message on a websocket."""

    link: Link
    message: bytes


@dataclass(frozen=True, slots=True)
class Hang:
    """Close a websocket, after what was sent on it before."""

    link: Link


Output = Tell | Hang


@dataclass(eq=False)
class _Room:
    digits: str
    owner: Key
    licensee: Key
    """Among whose rooms it counts."""
    ends_s: float
    knocks: Bucket
    visits: dict[int, _Visit] = field(default_factory=dict)
    """Who is inside, by number."""
    numbers: Iterator[int] = field(default_factory=partial(count, 1))

    @property
    def is_full(self) -> bool:
        """Whether nobody may come in: somebody has not proved the code yet, or enough have."""
        return len(self.visits) >= MOST_INSIDE or any(visit.is_unproved for visit in self.visits.values())

    @property
    def due_s(self) -> float:
        """When something about it is over."""
        return min([self.ends_s, *(visit.prove_by_s for visit in self.visits.values() if visit.is_unproved)])


@dataclass(eq=False)
class _Visit:
    room: _Room
    number: int
    joiner: Link
    prove_by_s: float
    course: Course[Phase, Event] = field(default_factory=lambda: Course(STEPS, Phase.UNPROVED))
    unproved_bytes: int = 0

    @property
    def is_unproved(self) -> bool:
        return self.course.phase is Phase.UNPROVED


@dataclass(frozen=True)
class _Inviter:
    key: Key
    address: Hashable


class Lobby:
    """All rooms of a relay."""

    def __init__(self, licences: Licences, word: str, now_s: float, bounds: RoomBounds = BOUNDS) -> None:
        self._licences = licences
        self._word = word
        self._bounds = bounds
        self._rooms: dict[str, _Room] = {}
        self._inviters: dict[Link, _Inviter] = {}
        self._agreed: dict[Link, Agreed] = {}
        """What follows from the exchange of shares by the word; it is good for one proof."""
        self._open: dict[Key, Link] = {}
        """The link on which each inviter's rooms are served."""
        self._visits: dict[Link, _Visit] = {}
        """That of each joiner."""
        self._deadline: float | None = None
        self._knocks = Buckets(bounds.knocks_of_address, KNOWN_ADDRESSES)
        self._wrong_words = Bucket(bounds.wrong_words, now_s)
        self._wrong_words_of = Buckets(bounds.wrong_words_of_address, KNOWN_ADDRESSES)

    @property
    def rooms(self) -> int:
        """How many rooms are open."""
        return len(self._rooms)

    @property
    def deadline(self) -> float | None:
        """When `tick` is due; it may find nothing to do then. None: never."""
        return self._deadline

    def tick(self, now_s: float) -> list[Output]:
        """Sends away joiners that have proved nothing in time, and closes rooms whose day is over."""
        done: list[Output] = []
        if self._deadline is None or now_s < self._deadline:
            return done
        for room in list(self._rooms.values()):
            if room.ends_s <= now_s:
                done += self._end(room)
        for visit in list(self._visits.values()):
            if visit.is_unproved and visit.prove_by_s <= now_s:
                done += self._leave(visit, Event.LATE)
        self._deadline = min((room.due_s for room in self._rooms.values()), default=None)
        return done

    def _wake_at(self, at_s: float) -> None:
        if self._deadline is None or at_s < self._deadline:
            self._deadline = at_s

    # -- inviters ----------------------------------------------------------------------------------

    def is_inviter(self, link: Link) -> bool:
        """Whether rooms are served on this link: its inviter has shown the word or a licence."""
        return link in self._inviters and self._open.get(self._inviters[link].key) == link

    def meet_inviter(self, link: Link, key: Key, address: Hashable) -> None:
        """Takes a link whose far end has proved this key."""
        self._inviters[link] = _Inviter(key, address)

    def hear_inviter(self, link: Link, message: bytes, random: bytes, now_s: float) -> list[Output]:
        """Takes a message of an inviter. `random`: 4 bytes for each of 64 rooms, or 32 for a share.

        Raises RemoteProtocolError if it breaks a rule: the link is to be closed.
        """
        said = read_from_inviter(message)
        inviter = self._inviters[link]
        if isinstance(said, WordShare):
            return self._exchange(link, inviter.key, said, random)
        if isinstance(said, OpenRooms):
            return self._open_rooms(link, inviter, said, random, now_s)
        if not self.is_inviter(link):
            raise RemoteProtocolError("an inviter that has opened no room")
        room = self._rooms.get(said.room)
        if room is None or room.owner != inviter.key:
            return []
        if isinstance(said, CloseRoom):
            return self._end(room)
        visit = room.visits.get(said.visit)
        if visit is None:
            return []
        if isinstance(said, Said):
            return [Tell(visit.joiner, said.data)]
        if isinstance(said, Dismiss):
            return self._send_away(visit, Event.DISMISSAL)
        if visit.is_unproved:
            visit.course.step(Event.PROOF)
        return []

    def lose_inviter(self, link: Link) -> list[Output]:
        """Takes note that an inviter's websocket is closed. Its rooms stay, and wait for it."""
        done: list[Output] = []
        if self.is_inviter(link):
            del self._open[self._inviters[link].key]
            done = self._clear(self._inviters[link].key)
        self._inviters.pop(link, None)
        self._agreed.pop(link, None)
        return done

    def _exchange(self, link: Link, inviter: Key, said: WordShare, random: bytes) -> list[Output]:
        if link in self._agreed:
            raise RemoteProtocolError("an inviter that begins to prove the word twice")
        scalar, relay = random[:SCALAR_BYTES], self._licences.relay
        run = word_run(RELAY, self._word, said.nonce, relay, inviter, scalar)
        self._agreed[link] = run.finish(said.point)
        return [Tell(link, write_room_message(WordShare(said.nonce, run.share)))]

    def _open_rooms(
        self, link: Link, inviter: _Inviter, asked: OpenRooms, random: bytes, now_s: float
    ) -> list[Output]:
        licensee = next((each.members.inviter for each in asked.credentials), inviter.key)
        agreed = self._agreed.pop(link, None)
        refusal = self._refusal(inviter, licensee, asked, agreed, now_s)
        if refusal is not None:
            return [Tell(link, write_room_message(refusal)), Hang(link)]
        done: list[Output] = []
        older = self._open.get(inviter.key)
        if older != link:
            self._open[inviter.key] = link
            done = self._clear(inviter.key)
            if older is not None:
                done.append(Hang(older))
        kept = [digits for digits in dict.fromkeys(asked.keep) if self._is_to_be_had(digits, inviter.key)]
        for digits in kept:
            self._add(digits, inviter.key, licensee, now_s)
        drawn = [
            self._draw(random[RANDOM_BYTES * place :][:RANDOM_BYTES], inviter.key, licensee, now_s)
            for place in range(asked.more)
        ]
        is_by_word = not (asked.licence or asked.credentials)  # else nothing was proved to this relay
        proof = agreed.own if agreed is not None and is_by_word else b""
        answer = Rooms(self._licences.give(licensee), (*kept, *drawn), proof)
        return [*done, Tell(link, write_room_message(answer))]

    def _refusal(
        self, inviter: _Inviter, licensee: Key, asked: OpenRooms, agreed: Agreed | None, now_s: float
    ) -> Refused | None:
        if asked.credentials:
            try:
                admitted_keys(asked.credentials[0], inviter.key, self._licences)
            except RemoteProtocolError as error:
                return Refused(str(error), is_final=True)
        elif asked.licence:
            try:
                self._licences.check(inviter.key, asked.licence)
            except RemoteProtocolError:
                return Refused(OTHER_WORD, is_final=True)
        else:
            mine = self._wrong_words_of.of(inviter.address, now_s)
            if not (mine.has(1, now_s) and self._wrong_words.has(1, now_s)):
                return Refused(TOO_MANY_WORDS, is_final=False)
            if agreed is None or not agreed.is_proved(asked.proof):
                mine.take(1, now_s)
                self._wrong_words.take(1, now_s)
                return Refused(WRONG_WORD, is_final=True)
        own = sum(room.licensee == licensee for room in self._rooms.values())
        new = asked.more + sum(digits not in self._rooms for digits in {*asked.keep})
        if own + new > MAX_ROOMS:
            return Refused(TOO_MANY_ROOMS, is_final=True)
        if len(self._rooms) + new > self._bounds.rooms:
            return Refused(NO_ROOM_LEFT, is_final=False)
        return None

    def _is_to_be_had(self, digits: str, key: Key) -> bool:
        return digits not in self._rooms or self._rooms[digits].owner == key

    def _draw(self, random: bytes, key: Key, licensee: Key, now_s: float) -> str:
        number = int.from_bytes(random, "big") % ALL_DIGITS
        while (digits := f"{number:0{DIGITS}}") in self._rooms:
            number = (number + 1) % ALL_DIGITS
        self._add(digits, key, licensee, now_s)
        return digits

    def _add(self, digits: str, key: Key, licensee: Key, now_s: float) -> None:
        if digits not in self._rooms:
            ends_s = now_s + self._bounds.life_s
            knocks = Bucket(self._bounds.knocks, now_s)
            self._rooms[digits] = _Room(digits, key, licensee, ends_s, knocks)
            self._wake_at(ends_s)

    def _clear(self, key: Key) -> list[Output]:
        """Sends away the joiners in an inviter's rooms: the inviter that they spoke to has gone."""
        theirs = [visit for visit in self._visits.values() if visit.room.owner == key]
        return [done for visit in theirs for done in self._send_away(visit, Event.LEAVE)]

    # -- joiners -----------------------------------------------------------------------------------

    def knock(self, link: Link, digits: str, address: Hashable, now_s: float) -> list[Output]:
        """Lets a joiner in, or says why not."""
        room = self._free_room(digits, address, now_s)
        if isinstance(room, Bar):
            return [Tell(link, write_room_message(Barred(room))), Hang(link)]
        visit = _Visit(room, next(room.numbers), link, now_s + self._bounds.proof_s)
        self._visits[link] = room.visits[visit.number] = visit
        self._wake_at(visit.prove_by_s)
        return [
            Tell(link, write_room_message(Entered())),
            Tell(self._open[room.owner], write_room_message(Knocked(digits, visit.number))),
        ]

    def is_inside(self, link: Link) -> bool:
        """Whether a joiner is in a room."""
        return link in self._visits

    def hear_joiner(self, link: Link, message: bytes) -> list[Output]:
        """Takes a message of a joiner.

        Raises RemoteProtocolError if it breaks a rule: the link is to be closed.
        """
        visit = self._visits.get(link)
        if visit is None:
            return []  # it was sent away, and had said this before
        if len(message) > MAX_JOINER_BYTES:
            raise RemoteProtocolError(f"a joiner that says {len(message)} bytes at once")
        if visit.is_unproved:
            visit.unproved_bytes += len(message)
            if visit.unproved_bytes > self._bounds.unproved_bytes:
                raise RemoteProtocolError("a joiner that says too much before its proof")
        said = Said(visit.room.digits, visit.number, message)
        return [Tell(self._open[visit.room.owner], write_room_message(said))]

    def lose_joiner(self, link: Link) -> list[Output]:
        """Takes note that a joiner's websocket is closed."""
        visit = self._visits.get(link)
        return [] if visit is None else self._leave(visit, Event.LEAVE)

    def _free_room(self, digits: str, address: Hashable, now_s: float) -> _Room | Bar:
        """The room if somebody from this address may come in now, else why not."""
        if not self._knocks.of(address, now_s).take(1, now_s):
            return Bar.TOO_OFTEN
        room = self._rooms.get(digits)
        if room is None or room.ends_s <= now_s:
            return Bar.NO_ROOM
        if room.owner not in self._open:
            return Bar.NOBODY
        if room.is_full:
            return Bar.TAKEN
        return room if room.knocks.take(1, now_s) else Bar.TOO_OFTEN

    def _leave(self, visit: _Visit, event: Event) -> list[Output]:
        """Ends a visit, and says so to the inviter."""
        left = Left(visit.room.digits, visit.number)
        return [
            *self._send_away(visit, event),
            Tell(self._open[visit.room.owner], write_room_message(left)),
        ]

    def _send_away(self, visit: _Visit, event: Event) -> list[Output]:
        """Ends a visit."""
        del self._visits[visit.joiner], visit.room.visits[visit.number]
        visit.course.step(event)
        return [Hang(visit.joiner)]

    def _end(self, room: _Room) -> list[Output]:
        del self._rooms[room.digits]
        return [done for visit in list(room.visits.values()) for done in self._send_away(visit, Event.END)]
