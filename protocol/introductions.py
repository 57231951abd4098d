"""Getting to know each other: hellos with retries, refusals, pins, allow-list, announcements passed on.

A node greets the endpoints it was given until each has answered, and every peer it hears of. Joining is
over when all have answered, when a swarm that is under way has, or after JOIN_S; if by then somebody
refused and nobody accepted, this node is configured wrongly and says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from protocol import codec
from protocol.actions import Action, Fatal, Note, Notice, Send, TrackerKnown, WrongTracker
from protocol.errors import RemoteProtocolError
from protocol.membership import Members
from protocol.messages import Announce, Hello, Key, Refused, Roster
from protocol.sealing import derive
from protocol.standing import ANNOUNCE_LIFETIME_S, Settings, Standing
from protocol.steps import Course, Step, Table

JOIN_S = 5.0
ANNOUNCE_EVERY_S = ANNOUNCE_LIFETIME_S / 3
_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 4.0
_MAX_GREETINGS = 4096
OTHER_SWARM = "other task or parameters"
NOBODY_LISTENS = "connection refused"
"""Why an endpoint is unreachable where the machine is there, and no process listens."""
OTHER_KEY = "who answers holds the key "
"""How it begins where, under TLS, another is there; it goes on with that key, and whose was expected."""


class Phase(Enum):
    """Whether this node still gets to know the others."""

    JOINING = "joining"
    JOINED = "joined"


class Event(Enum):
    """What ends joining."""

    SETTLED = "all answered, or time"


STEPS: Table[Phase, Event] = {
    (Phase.JOINING, Event.SETTLED): Step(
        Phase.JOINED,
        "all who were named answered the Hello by a Hello, a tracker by a Roster, or by Refused; or a "
        "swarm under way has; or time is over. Fatal where somebody refused and nobody is known",
    )
}
"""Greetings, announcements and news go on as before; only then this node seeks a group."""


@dataclass
class Greeting:
    """An endpoint that this node says hello to until it answers."""

    nonce: bytes
    retry_s: float = _FIRST_RETRY_S
    retry_at: float | None = None
    answered: bool = False
    refused: Refused | None = None
    why: str = ""
    """Why nobody could be reached there at the last try."""
    noticed: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether nobody listens there, as of the last try."""
        return not self.answered and self.why == NOBODY_LISTENS


class Introductions:
    """This node's acquaintances. `rand`: 32 secret bytes that name its hellos."""

    def __init__(self, settings: Settings, standing: Standing, rand: bytes) -> None:
        self._settings = settings
        self._standing = standing
        self._rand = rand
        self._greetings: dict[str, Greeting] = {}
        self._told: set[tuple[Note, bytes]] = set()
        self._again_at: float | None = None
        self._join_until: float | None = None
        self.members = Members()
        self._course = Course(STEPS, Phase.JOINING)
        self.tracker_key: Key | None = None
        self._first_tracker: Key | None = None

    @property
    def joining(self) -> bool:
        """Whether this node still gets to know the others."""
        return self._course.phase is Phase.JOINING

    @property
    def greetings(self) -> dict[str, Greeting]:
        """Whom this node says hello to, or has said it to, by endpoint."""
        return dict(self._greetings)

    def count(self, round: int) -> None:
        """This node's last round is this one now; whom it knew before it still knows."""
        self.members.skipped(round - self._standing.round - 1)
        self._standing.round = round

    # -- out ---------------------------------------------------------------------------------------

    def open(self, now: float) -> list[Action]:
        """Greet everyone that was named."""
        self._join_until = now + JOIN_S
        self._again_at = now + ANNOUNCE_EVERY_S
        tracker = self._settings.tracker
        seeds = (tracker,) if tracker else self._settings.seeds
        greetings = [action for seed in seeds for action in self.greet(seed, now)]
        return [*greetings, *self.settle(now)]

    def greet(self, endpoint: str, now: float) -> list[Action]:
        """Say hello, once more or for the first time."""
        is_full = endpoint not in self._greetings and len(self._greetings) >= _MAX_GREETINGS
        if endpoint == self._settings.endpoint or is_full:
            return []
        nonce = derive(self._rand, b"hello", len(self._greetings).to_bytes(8, "big"))[:16]
        greeting = self._greetings.setdefault(endpoint, Greeting(nonce))
        greeting.answered = False
        greeting.retry_at = now + _LAST_RETRY_S
        return [Send(endpoint, (self._hello(now, greeting.nonce, wants_reply=True),))]

    def _hello(self, now: float, nonce: bytes, wants_reply: bool) -> Hello:
        announce = self._standing.announce(self._settings, now)
        passed_on = 0 if wants_reply else codec.MAX_KNOWN
        known = self.members.announces(self._standing.round, passed_on)
        return Hello(announce, nonce, wants_reply, self._settings.parameters, known)

    def broadcast(self, now: float, leaving: bool = False) -> list[Action]:
        """Tell every live peer (and the tracker) where this node stands now."""
        self._again_at = now + ANNOUNCE_EVERY_S
        announce = self._standing.announce(self._settings, now, leaving)
        hello = Hello(announce, bytes(16), False, "", ())
        live = (self.members.get(key) for key in self.members.live(self._standing.round))
        endpoints = {announce.endpoint for announce in live if announce}
        if self._settings.tracker:
            endpoints.add(self._settings.tracker)
        return [Send(endpoint, (hello,)) for endpoint in sorted(endpoints)]

    def show(self, endpoint: str, announces: tuple[Announce, ...], now: float) -> list[Action]:
        """Pass announcements on to a node that should see them."""
        announce = self._standing.announce(self._settings, now)
        return [Send(endpoint, (Hello(announce, bytes(16), False, "", announces[: codec.MAX_KNOWN]),))]

    # -- in ----------------------------------------------------------------------------------------

    def hello(self, hello: Hello, now: float) -> list[Action]:
        """Take in a hello: a question, an answer, or news."""
        announce = hello.announce
        codec.verify(announce, announce.key)
        if announce.key == self._settings.key.public:
            return self._myself(hello, now)
        refusal = self._refusal(announce)
        if refusal is not None:
            return self._refuse(hello, refusal, now)
        actions = self._meet(announce, now)
        self._answered(hello.nonce, announce)
        if hello.wants_reply:
            actions.append(Send(announce.endpoint, (self._hello(now, hello.nonce, wants_reply=False),)))
        return [*actions, *self.news(hello.known, now), *self.settle(now)]

    def _myself(self, hello: Hello, now: float) -> list[Action]:
        """A hello in one's own name: from oneself, or from another node with the same key.

        Only the answer to one's own question ends a node: a hello from an earlier life may be sent again by
        anyone. So the younger of the two asks, and the older one answers.
        """
        mine, theirs = self._settings, hello.announce
        greeted = [end for end, greeting in self._greetings.items() if greeting.nonce == hello.nonce]
        if theirs.instance == mine.instance:
            for endpoint in greeted:
                self._greetings[endpoint].answered = True
            return []
        if (theirs.started_ms, theirs.instance) > (mine.started_ms, mine.instance):
            answer = Send(theirs.endpoint, (self._hello(now, hello.nonce, wants_reply=False),))
            return [answer] if hello.wants_reply else []
        if not greeted:
            return self.greet(theirs.endpoint, now)
        who = f"the node at {theirs.endpoint} already runs with this key ({theirs.key.hex()[:16]}...)"
        return [Fatal(f"{who}: give each node its own --key or --out")]

    def _refusal(self, announce: Announce) -> tuple[Note, str] | None:
        """Why a peer is not accepted, if it is not."""
        pinned = self._settings.pins.get(announce.endpoint)
        if announce.key in self._standing.banned:
            return Note.NOT_ALLOWED, "this key was banned for two different sums in one session"
        if pinned is not None and pinned != announce.key:
            return Note.WRONG_PIN, f"key {announce.key.hex()} is not the one pinned for {announce.endpoint}"
        if not self._settings.allows(announce.key):
            here = self._settings.endpoint
            return Note.NOT_ALLOWED, f"key {announce.key.hex()} is not on the allow-list of {here}"
        if announce.swarm != (self._settings.task, self._settings.parameters_hash):
            return Note.OTHER_SWARM, OTHER_SWARM
        return None

    def _refuse(self, hello: Hello, refusal: tuple[Note, str], now: float) -> list[Action]:
        note, reason = refusal
        announce = hello.announce
        text = hello.parameters if note is Note.OTHER_SWARM else reason
        actions = self._tell(note, announce.endpoint, announce.key, text)
        self._refused(hello.nonce, Refused(hello.nonce, reason, hello.parameters))
        if hello.wants_reply:
            refused = Refused(
                hello.nonce, reason, self._settings.parameters if note is Note.OTHER_SWARM else ""
            )
            actions.append(Send(announce.endpoint, (refused,)))
        return [*actions, *self.settle(now)]

    def _tell(self, note: Note, who: str, key: Key, text: str) -> list[Action]:
        """A notice, once for each peer and kind."""
        if (note, key) in self._told or len(self._told) >= _MAX_GREETINGS:
            return []
        self._told.add((note, key))
        return [Notice(note, who, text)]

    def accepts(self, announce: Announce) -> bool:
        """Whether a peer belongs to this swarm and may take part."""
        return self._refusal(announce) is None

    def _meet(self, announce: Announce, now: float) -> list[Action]:
        was_known = announce.key in self.members.known(self._standing.round)
        self.members.learn(announce, self._standing.round, now, direct=True)
        is_known = announce.key in self.members.known(self._standing.round)
        if is_known == was_known:
            return []
        kind = Note.JOINED if is_known else Note.LEFT
        return [Notice(kind, announce.endpoint, announce.key.hex()[:8])]

    def news(self, known: tuple[Announce, ...], now: float) -> list[Action]:
        """Take in announcements that somebody passed on; greet those that are new."""
        actions: list[Action] = []
        for announce in known:
            mine = self.members.get(announce.key)
            is_new = mine is None or mine.issued_ms < announce.issued_ms
            if announce.key == self._settings.key.public or not is_new or not self._may_come(announce.key):
                continue
            try:
                codec.verify(announce, announce.key)
            except RemoteProtocolError:
                continue  # one bad line does not spoil what else was passed on
            if announce.task == self._settings.task and announce.endpoint not in self._greetings:
                actions += self.greet(announce.endpoint, now)
            if self.accepts(announce) and not announce.leaving and announce.expiry_ms > now * 1000:
                self.members.learn(announce, self._standing.round, now, direct=False)
        return actions

    def _may_come(self, key: Key) -> bool:
        """Whether this key is worth a greeting: nobody makes this node call strangers."""
        return self._settings.allows(key) and key not in self._standing.banned

    def roster(self, roster: Roster, now: float) -> list[Action]:
        """The tracker's answer: its key and the peers it knows. With a nonce of zeros: news from it.

        The first key that an unpinned tracker shows stays its key.
        """
        codec.verify(roster, roster.key)
        tracker = self._settings.tracker
        greeting = self._greetings.get(tracker) if tracker else None
        if self.tracker_key == roster.key and roster.nonce == bytes(16):
            return self.news(roster.known, now)
        if tracker is None or greeting is None or greeting.nonce != roster.nonce:
            raise RemoteProtocolError("a roster that was not asked for")
        expected = self.keys_of_tracker
        if expected and roster.key not in expected:
            held, wanted = roster.key.hex(), " or ".join(key.hex() for key in expected)
            return [WrongTracker(tracker, f"it holds the key {held}, not {wanted}")]
        first: list[Action] = [] if expected else [TrackerKnown(tracker, roster.key)]
        actions = [*first, *self._tell(Note.COORDINATOR, tracker, roster.key, roster.key.hex()[:8])]
        greeting.answered, greeting.retry_at, greeting.retry_s = True, None, _FIRST_RETRY_S
        self.tracker_key = self._first_tracker = roster.key
        return [*actions, *self.news(roster.known, now), *self.settle(now)]

    @property
    def keys_of_tracker(self) -> frozenset[Key]:
        """Who may be the tracker: whose key is pinned, else who was it at first; nobody: whoever answers."""
        known = self._settings.pins.get(self._settings.tracker or "", self._first_tracker)
        return frozenset() if known is None else frozenset((known,))

    def refused(self, refused: Refused, now: float) -> list[Action]:
        """Somebody does not accept this node."""
        endpoint = self._refused(refused.nonce, refused)
        if endpoint is None:
            raise RemoteProtocolError("a refusal of something that was not said")
        if endpoint == self._settings.tracker:
            return [Fatal(f"the tracker at {endpoint} refuses this node: {refused.reason}")]
        is_other = refused.reason == OTHER_SWARM
        text = refused.parameters if is_other else refused.reason
        note = Note.OTHER_SWARM if is_other else Note.REFUSED
        return [*self._tell(note, endpoint, endpoint.encode(), text), *self.settle(now)]

    def _refused(self, nonce: bytes, refused: Refused) -> str | None:
        for endpoint, greeting in self._greetings.items():
            if greeting.nonce == nonce:
                greeting.refused, greeting.retry_at = refused, None
                return endpoint
        return None

    def _answered(self, nonce: bytes, announce: Announce) -> None:
        for endpoint, greeting in self._greetings.items():
            if greeting.nonce == nonce or endpoint == announce.endpoint:
                greeting.answered, greeting.refused = True, None
                greeting.retry_at, greeting.retry_s = None, _FIRST_RETRY_S

    # -- time --------------------------------------------------------------------------------------

    def settle(self, now: float) -> list[Action]:
        """End joining when everybody answered, a swarm under way did, or the time is over."""
        settled = self.joining and self._settled(now)
        if self._join_until is not None and (settled or now >= self._join_until):
            self._join_until = None
        missed = [] if self._join_until is not None else self._missed()
        if not settled:
            return missed
        self._course.step(Event.SETTLED)
        refusals = [(end, g.refused) for end, g in self._greetings.items() if g.refused]
        if not refusals or self.members.known(self._standing.round):
            return missed
        endpoint, refused = refusals[0]
        if refused.reason == OTHER_SWARM:
            return [Fatal(f"{endpoint} runs another task or other parameters", refused.parameters)]
        return [Fatal(f"{endpoint} refuses this node: {refused.reason}")]

    def _settled(self, now: float) -> bool:
        if self._settings.tracker and self.tracker_key is None:
            return False
        live = [self.members.get(key) for key in self.members.live(self._standing.round)]
        under_way = any(announce is not None and announce.round > 0 for announce in live)
        if under_way and len(live) + 1 >= self._settings.min_participants:
            return True
        resolved = all(greeting.answered or greeting.refused for greeting in self._greetings.values())
        return resolved or self._join_until is None or now >= self._join_until

    def unreachable(self, endpoint: str, now: float, why: str) -> list[Action]:
        """Nobody answers at an endpoint: try again, later each time, unless who was there has left."""
        if endpoint == self._settings.tracker and why.startswith(OTHER_KEY):
            return [WrongTracker(endpoint, why)]
        there = self.members.at(endpoint)
        if there is not None and there.leaving:
            return []
        nonce = derive(self._rand, b"late", endpoint.encode())[:16]
        greeting = self._greetings.setdefault(endpoint, Greeting(nonce))
        greeting.answered, greeting.why = False, why
        greeting.retry_at = now + greeting.retry_s
        greeting.retry_s = min(_LAST_RETRY_S, greeting.retry_s * 1.6)
        return [] if self._join_until is not None else self._missed()

    def _missed(self) -> list[Action]:
        """A notice, once each, for the endpoints where nobody could be reached; none while joining."""
        missed = [(e, g) for e, g in self._greetings.items() if g.why and not (g.answered or g.noticed)]
        for _, greeting in missed:
            greeting.noticed = True
        return [Notice(Note.UNREACHABLE, endpoint, greeting.why) for endpoint, greeting in missed]

    def tick(self, now: float) -> list[Action]:
        """Retries, announcements, the end of joining."""
        due = [end for end, g in self._greetings.items() if g.retry_at is not None and now >= g.retry_at]
        actions = [action for endpoint in due for action in self.greet(endpoint, now)]
        return [*actions, *self.settle(now)]

    def announcing_due(self, now: float) -> bool:
        """Whether it is time to announce oneself again."""
        return self._again_at is not None and now >= self._again_at

    @property
    def deadline(self) -> float | None:
        """When tick should be called at the latest."""
        retries = [g.retry_at for g in self._greetings.values() if g.retry_at is not None]
        times = [*retries, self._again_at, self._join_until if self.joining else None]
        return min((at for at in times if at is not None), default=None)

    def awaited(self) -> tuple[str, ...]:
        """The endpoints that have not answered yet."""
        return tuple(end for end, g in self._greetings.items() if not g.answered and not g.refused)
