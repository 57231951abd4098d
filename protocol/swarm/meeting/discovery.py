"""Peer discovery: hellos with retries, refusals, pins, allow-list, announcements passed on.

A node greets the configured endpoints until each has answered, and every peer that others name. Joining is
over when all have answered, when enough members of a running swarm have, or after JOIN_S. If by then a peer
refused this node and none accepted it, this node is misconfigured and ends with the reason.

A peer's announcement shows that the peer is present only on a link on which it proved its key; announcements
passed on by others are merely ordered by (epoch, counter). A refusal goes back on the link of the refused
message. A node that leaves says why in a GOODBYE, for the others' owners, and then leaves by a HELLO.

In an invited swarm the owner may change the allow-list at any time. Members tell each other by a VOUCH whom
they have invited later (protocol.swarm.meeting.vouching).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from protocol.actions import Action, Fatal, Note, Notice, RaiseEpoch, Reply, Send, TrackerKnown, WrongTracker
from protocol.crypto.sealing import derive
from protocol.errors import RemoteProtocolError
from protocol.swarm.meeting.clock_skew import Clocks, Skew
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import ANNOUNCE_LIFETIME_S, NodeState, Settings
from protocol.transitions import Course, Step, Table
from protocol.wire import signing
from protocol.wire.endpoints import of_key
from protocol.wire.limits import MAX_KNOWN
from protocol.wire.messages import Announce, Goodbye, Hello, Key, Message, Parting, Refused, Roster

JOIN_S = 5.0
ANNOUNCE_EVERY_S = ANNOUNCE_LIFETIME_S / 3
_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 4.0
MAX_GREETINGS = 1024
"""The largest number of endpoints that a node greets at a time."""
GREETED_FOR_S = 60.0
"""A node stops greeting an endpoint that is silent for this long, is not configured and not a member's."""
TWIN_S = 0.05
"""If two nodes with one key differ by less in age, their `instance` decides which one ends."""
OTHER_SWARM = "other task or parameters"
NOBODY_LISTENS = "connection refused"
"""Why an endpoint is unreachable if its machine responds and no process listens."""
OLDER_VERSION, NEWER_VERSION = "runs an older version", "runs a newer version"
OTHER_VERSION = "runs another version"
"""How the reason begins if a process of another version of the protocol answers; what to do follows."""
WITHOUT_TLS = "the program there does not speak TLS 1.3"
UNDER_TLS = "the program there does not answer without TLS"
"""How the reason begins if the far end seems to have another --tls than this node; what to do follows."""
OTHER_KEY = "the far end holds the key "
"""How the reason begins if, under TLS, another key answers; that key and the expected one follow."""


class Phase(Enum):
    """Whether this node is still joining."""

    JOINING = "joining"
    JOINED = "joined"


class Event(Enum):
    """What ends joining."""

    SETTLED = "all answered, or time"


STEPS: Table[Phase, Event] = {
    (Phase.JOINING, Event.SETTLED): Step(
        Phase.JOINED,
        "all who were named answered the Hello by a Hello, a tracker by a Roster, or by Refused, or run "
        "another version; or a swarm under way has; or time is over. Fatal where somebody refused and nobody "
        "is known",
    )
}
"""Greetings, announcements and news continue after joining; a node seeks a group only then."""


@dataclass(frozen=True, slots=True)
class Retry:
    """When a greeting is sent again; None: not yet. `wait_s`: after the next try that reaches nobody."""

    at: float | None = None
    wait_s: float = _FIRST_RETRY_S

    def failed(self, now: float) -> Retry:
        """The retry after a try that reached nobody: each one waits longer than the one before."""
        return Retry(now + self.wait_s, min(_LAST_RETRY_S, self.wait_s * 1.6))


@dataclass
class Greeting:
    """An endpoint that this node greets until it answers."""

    nonce: bytes
    retry: Retry = Retry()
    answered: bool = False
    refused: Refused | None = None
    since: float = 0.0
    """When the first greeting was sent, or the last answer came."""
    why: str = ""
    """Why the last try reached nobody there."""
    noticed: str = ""
    """The reason that was noticed last."""
    other_version: str = ""
    """What was answered there by a process of another version, until one of this version answers."""

    @property
    def other_tls(self) -> bool:
        """Whether the far end has another --tls, as of the last try."""
        return not self.answered and _is_of_tls(self.why)

    @property
    def is_news(self) -> bool:
        """Whether the last try failed as was not noticed yet: only another --tls is told again and again."""
        if self.answered or self.why in ("", self.other_version, self.noticed):
            return False
        return not self.noticed or _is_of_tls(self.why) or _is_of_tls(self.noticed)

    @property
    def is_refused(self) -> bool:
        """Whether no process listens there, as of the last try."""
        return not self.answered and self.why == NOBODY_LISTENS


def _is_of_tls(why: str) -> bool:
    return why.startswith((WITHOUT_TLS, UNDER_TLS))


class Discovery:
    """The peers that this node knows and greets. `rand`: 32 secret bytes from which its nonces derive."""

    def __init__(self, settings: Settings, state: NodeState, rand: bytes) -> None:
        self._settings = settings
        self._state = state
        self._rand = rand
        state.allow = settings.contacts.allow
        self.seeds = settings.contacts.seeds
        """The endpoints of the peers that the owner named."""
        self._greetings: dict[str, Greeting] = {}
        self._opened_at = 0.0
        self._dialled_until = 0.0
        """Until when one that left may be back with another --tls: one who cannot be linked with dialled."""
        self._again_at: float | None = None
        self._join_until: float | None = None
        self.members = Members(state)
        self.clocks = Clocks()
        self.compared: Mapping[Key, Skew] = {}
        """The clocks at the last look at which most peers' were known. Replaced, never changed in place."""
        self._course = Course(STEPS, Phase.JOINING)
        self.tracker_key: Key | None = None
        self._first_tracker: Key | None = None

    @property
    def joining(self) -> bool:
        """Whether this node is still joining."""
        return self._course.phase is Phase.JOINING

    @property
    def greetings(self) -> dict[str, Greeting]:
        """The state of each greeting, by endpoint."""
        return dict(self._greetings)

    @property
    def other_versions(self) -> dict[str, str]:
        """What the peers and the tracker that the owner named answered with another version, by endpoint."""
        found = ((end, self._greetings.get(end)) for end in self._configured)
        return {end: there.other_version for end, there in found if there and there.other_version}

    @property
    def _configured(self) -> tuple[str, ...]:
        tracker = self._settings.contacts.tracker
        return self.seeds if tracker is None else (tracker, *self.seeds)

    def forget_tracker(self) -> None:
        """The tracker cannot be reached: forget its key, because another one may answer there."""
        self.tracker_key = None

    # -- out ---------------------------------------------------------------------------------------

    def open(self, now: float) -> list[Action]:
        """Greet the configured endpoints."""
        self._opened_at = now
        self._join_until = now + JOIN_S
        self._again_at = now + ANNOUNCE_EVERY_S
        tracker = self._settings.contacts.tracker
        seeds = (tracker,) if tracker else self.seeds
        greetings = [action for seed in seeds for action in self.greet(seed, now)]
        return [*greetings, *self.settle(now)]

    def change_allowed(self, allow: frozenset[Key], now: float) -> list[Action]:
        """These keys, whose endpoints stand for them, may take part from now on, and no others."""
        before, self._state.allow = self._state.allow or frozenset(), allow
        gone, new = (tuple(map(of_key, sorted(keys))) for keys in (before - allow, allow - before))
        for key in before - allow:
            self.members.forget(key)
        for endpoint in gone:
            self._greetings.pop(endpoint, None)
        self.seeds = tuple(end for end in (*self.seeds, *new) if end not in gone)
        return [action for endpoint in new for action in self.greet(endpoint, now)]

    def greet(self, endpoint: str, now: float) -> list[Action]:
        """Send a Hello to an endpoint, for the first time or again."""
        greeting = self._greeting(endpoint, now) if endpoint != self._settings.endpoint else None
        if greeting is None:
            return []
        greeting.answered = False
        greeting.retry = replace(greeting.retry, at=now + _LAST_RETRY_S)
        return [Send(endpoint, (self._hello(now, greeting.nonce, wants_reply=True),))]

    def miss(self, key: Key, now: float) -> None:
        """Something of a member is missing here: greet it at the next tick, as the link may be cut."""
        self.members.miss(key)
        there = self.members.get(key)
        if there is not None and (greeting := self._greeting(there.endpoint, now)) is not None:
            greeting.answered, greeting.retry = False, replace(greeting.retry, at=now)

    def _greeting(self, endpoint: str, now: float) -> Greeting | None:
        """The greeting of an endpoint, new if need be; None if MAX_GREETINGS are under way."""
        greeting = self._greetings.get(endpoint)
        if greeting is None and len(self._greetings) < MAX_GREETINGS:
            nonce = derive(self._rand, b"hello", endpoint.encode())[:16]
            greeting = self._greetings[endpoint] = Greeting(nonce, since=now)
        return greeting

    def look_again(self, now: float) -> list[Action]:
        """A node of another version or --tls has dialled: greet named peers that left, one may be back."""
        self._dialled_until = now + JOIN_S
        idle = [end for end, greeting in self._greetings.items() if greeting.retry.at is None]
        left = [end for end in self._configured if end in idle and self._has_left(end)]
        return [action for end in left for action in self.greet(end, now)]

    def _has_left(self, endpoint: str) -> bool:
        there = self.members.at(endpoint)
        return there is not None and there.leaving

    def _hello(self, now: float, nonce: bytes, wants_reply: bool, first: tuple[Announce, ...] = ()) -> Hello:
        """`first`: announcements to list before those that a newcomer gets."""
        announce = self._state.announce(self._settings)
        passed_on = 0 if wants_reply else MAX_KNOWN - len(first)
        known = (*first, *self.members.announces(passed_on))
        return self._introduction(announce, nonce, wants_reply, self._settings.task.parameters, known, now)

    def _introduction(
        self,
        announce: Announce,
        nonce: bytes,
        wants_reply: bool,
        parameters: str,
        known: tuple[Announce, ...],
        now: float,
    ) -> Hello:
        return Hello(
            announce, nonce, wants_reply, parameters, known, self._age_ms(now), self.clocks.shown_ms(now)
        )

    def _age_ms(self, now: float) -> int:
        return max(0, int((now - self._opened_at) * 1000))

    def broadcast(self, now: float, leaving: bool = False, why: Parting | None = None) -> list[Action]:
        """Announce this node's state to every live peer, and to the tracker; tell peers `why` it leaves."""
        self._again_at = now + ANNOUNCE_EVERY_S
        announce = self._state.announce(self._settings, leaving)
        hello = self._introduction(announce, bytes(16), False, "", (), now)
        endpoints = {each.endpoint for each in self.members.announced(self.members.live)}
        endpoints |= self._asked() if leaving else set()
        told: tuple[Message, ...] = (hello,)
        if why is not None:
            goodbye = Goodbye(self._settings.key.public, self._settings.instance, int(why))
            told = (signing.sign(goodbye, self._settings.key), hello)
        tracker = [Send(self._settings.contacts.tracker, (hello,))] if self._settings.contacts.tracker else []
        return [*(Send(endpoint, told) for endpoint in sorted(endpoints)), *tracker]

    def _asked(self) -> set[str]:
        """The peers that were greeted and have not answered yet: they may know this node by now."""
        open_ones = (end for end, g in self._greetings.items() if not (g.answered or g.refused or g.why))
        return {endpoint for endpoint in open_ones if endpoint != self._settings.contacts.tracker}

    def show(self, endpoint: str, announces: tuple[Announce, ...], now: float) -> list[Action]:
        """Pass announcements on to the node at an endpoint."""
        announce = self._state.announce(self._settings)
        shown = announces[:MAX_KNOWN]
        return [Send(endpoint, (self._introduction(announce, bytes(16), False, "", shown, now),))]

    # -- in ----------------------------------------------------------------------------------------

    def hello(self, hello: Hello, by: Key | None, now: float) -> list[Action]:
        """Process a Hello: a question, an answer, or news.

        Raises RemoteProtocolError unless its sender proved its key on the link.
        """
        announce = hello.announce
        if by != announce.key:
            raise RemoteProtocolError("a Hello on the link of another")
        signing.verify(announce, announce.key)
        if announce.key == self._settings.key.public:
            return self._myself(hello, now)
        refusal = self._refusal(announce)
        if refusal is not None:
            return self._refuse(hello, refusal, now)
        held = self.members.get(announce.key)
        was_further = held is not None and held.order > announce.order and held.instance != announce.instance
        was_known = self.members.knows(announce.key)
        self.members.learn(announce, now, live=True)
        is_known, actions = self.members.knows(announce.key), list[Action]()
        if is_known != was_known:
            note, parting = Note.JOINED if is_known else Note.LEFT, self.members.parting(announce.key)
            actions.append(Notice(note, announce.endpoint, announce.key.hex()[:8], parting))
        self.clocks.heard(announce.key, announce.endpoint, hello.clock_ms, now)
        self._answered(hello.nonce, announce, now)
        if hello.wants_reply or was_further:
            first = (held,) if held is not None and was_further else ()
            answer = self._hello(now, hello.nonce, wants_reply=False, first=first)
            actions.append(Send(announce.endpoint, (answer,)))
        return [*actions, *self.news(hello.known, now), *self.settle(now)]

    def goodbye(self, goodbye: Goodbye, by: Key | None) -> list[Action]:
        """Note why a peer is about to leave. Raises RemoteProtocolError unless it says so on its own link."""
        if by != goodbye.key:
            raise RemoteProtocolError("a GOODBYE on the link of another")
        signing.verify(goodbye, goodbye.key)
        self.members.parts(goodbye)
        return []

    def _myself(self, hello: Hello, now: float) -> list[Action]:
        """Process a Hello with this node's own key: from itself, or from another node that holds the key.

        The sender has just proved the key on the link, so it is running. The younger of the two nodes ends;
        the older one answers, so that the younger one knows.
        """
        mine, theirs = self._settings, hello.announce
        if theirs.instance == mine.instance:
            for greeting in self._greetings.values():
                greeting.answered = greeting.answered or greeting.nonce == hello.nonce
            return []
        older_by_s = (self._age_ms(now) - hello.age_ms) / 1000  # too large by the Hello's travel time
        is_younger = older_by_s < 0 or (older_by_s < TWIN_S and theirs.instance > mine.instance)
        if not is_younger:
            answer = Send(theirs.endpoint, (self._hello(now, hello.nonce, wants_reply=False),))
            return [answer] if hello.wants_reply else []
        who = f"the node at {theirs.endpoint} already runs with this key ({theirs.key.hex()[:16]}...)"
        return [Fatal(f"{who}: give each node its own --key or --out")]

    def _refusal(self, announce: Announce) -> tuple[Note, str] | None:
        """Why this node does not accept a peer; None if it does."""
        pinned = self._settings.contacts.pins.get(announce.endpoint)
        if announce.key in self._state.banned:
            return Note.NOT_ALLOWED, "this key was banned: it lied in a sum"
        if pinned is not None and pinned != announce.key:
            return Note.WRONG_PIN, f"key {announce.key.hex()} is not the one pinned for {announce.endpoint}"
        if not self._settings.may_be_at(announce.key, announce.endpoint):
            return Note.NOT_ALLOWED, f"key {announce.key.hex()} announces an endpoint that is not its own"
        if not self._state.allows(announce.key, self._settings):
            here = self._settings.endpoint
            return Note.NOT_ALLOWED, f"key {announce.key.hex()} is not on the allow-list of {here}"
        if announce.swarm != self._settings.task.swarm:
            return Note.OTHER_SWARM, OTHER_SWARM
        return None

    def _refuse(self, hello: Hello, refusal: tuple[Note, str], now: float) -> list[Action]:
        note, reason = refusal
        announce = hello.announce
        text = hello.parameters if note is Note.OTHER_SWARM else reason
        actions: list[Action] = [Notice(note, announce.endpoint, text, subject=announce.key)]
        self._refused(hello.nonce, Refused(hello.nonce, reason, hello.parameters))
        if hello.wants_reply:
            refused = Refused(
                hello.nonce, reason, self._settings.task.parameters if note is Note.OTHER_SWARM else ""
            )
            actions.append(Reply((refused,)))
        return [*actions, *self.settle(now)]

    def accepts(self, announce: Announce) -> bool:
        """Whether a peer belongs to this swarm and may take part."""
        return self._refusal(announce) is None

    def accepted(self, by: Key | None, what: str) -> Announce:
        """The announcement of who brought a message; RemoteProtocolError about `what` if not accepted."""
        announce = self.members.get(by or b"")
        if announce is None or not self.accepts(announce):
            raise RemoteProtocolError(f"{what}, from a peer that this node does not accept")
        return announce

    def news(self, known: tuple[Announce, ...], now: float) -> list[Action]:
        """Process announcements that a peer passed on; greet the new endpoints among them."""
        actions = self._own(known, now)
        for announce in known:
            key, mine = announce.key, self.members.get(announce.key)
            is_new = mine is None or mine.order < announce.order
            allowed = self._state.allows(key, self._settings) and key not in self._state.banned
            may_come = allowed and self._settings.may_be_at(key, announce.endpoint)  # else dial no stranger
            if key == self._settings.key.public or not is_new or not may_come:
                continue
            try:
                signing.verify(announce, key)
            except RemoteProtocolError:
                continue  # one invalid announcement does not void the others
            if announce.task == self._settings.task.name and announce.endpoint not in self._greetings:
                actions += self.greet(announce.endpoint, now)
            if self.accepts(announce) and not announce.leaving:
                self.members.learn(announce, now, live=False)
        return actions

    def _own(self, known: tuple[Announce, ...], now: float) -> list[Action]:
        """Raise the epoch if others know an announcement of this key that is later than all of this start.

        Then the folder was restored from an older copy, or is a new one for an old key. All announcements
        from here on are later than that one. If another node runs with this key, it is found at the announced
        endpoint.
        """
        mine, state = self._settings.key.public, self._state
        of_me = [each for each in known if each.key == mine and each.instance != self._settings.instance]
        latest = max(of_me, key=lambda announce: announce.order, default=None)
        if latest is None or latest.order <= (state.epoch, state.counter):
            return []
        try:
            signing.verify(latest, mine)
        except RemoteProtocolError:
            return []
        state.begin_epoch(latest.epoch + 1)
        raised = (RaiseEpoch(latest.epoch), Notice(Note.EPOCH, "", subject=mine))
        return [*raised, *self.greet(latest.endpoint, now), *self.broadcast(now)]

    def roster(self, roster: Roster, now: float) -> list[Action]:
        """Process the tracker's answer: its key and the peers it knows. A nonce of zeros means news.

        The first key that an unpinned tracker shows stays its key. Raises RemoteProtocolError for a roster
        that this node did not ask for.
        """
        signing.verify(roster, roster.key)
        tracker = self._settings.contacts.tracker
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
        self.clocks.heard(roster.key, tracker, roster.clock_ms, now)
        met = Notice(Note.COORDINATOR, tracker, roster.key.hex()[:8], subject=roster.key)
        greeting.answered, greeting.retry = True, Retry()
        greeting.since, greeting.other_version = now, ""
        self.tracker_key = self._first_tracker = roster.key
        return [*first, met, *self.news(roster.known, now), *self.settle(now)]

    @property
    def keys_of_tracker(self) -> frozenset[Key]:
        """The keys that the tracker may have: the pinned one, else the first one it showed; empty: any."""
        known = self._settings.contacts.pins.get(self._settings.contacts.tracker or "", self._first_tracker)
        return frozenset() if known is None else frozenset((known,))

    def refused(self, refused: Refused, now: float) -> list[Action]:
        """A peer or the tracker refuses this node."""
        endpoint = self._refused(refused.nonce, refused)
        if endpoint is None:
            raise RemoteProtocolError("a refusal of something that was not said")
        if endpoint == self._settings.contacts.tracker:
            return [Fatal(f"the tracker at {endpoint} refuses this node: {refused.reason}")]
        is_other = refused.reason == OTHER_SWARM
        text = refused.parameters if is_other else refused.reason
        note = Note.OTHER_SWARM if is_other else Note.REFUSED
        return [Notice(note, endpoint, text, subject=endpoint.encode()), *self.settle(now)]

    def _refused(self, nonce: bytes, refused: Refused) -> str | None:
        for endpoint, greeting in self._greetings.items():
            if greeting.nonce == nonce:
                greeting.refused, greeting.other_version = refused, ""
                greeting.retry = replace(greeting.retry, at=None)
                return endpoint
        return None

    def _answered(self, nonce: bytes, announce: Announce, now: float) -> None:
        for endpoint, greeting in self._greetings.items():
            if greeting.nonce == nonce or endpoint == announce.endpoint:
                greeting.answered, greeting.refused, greeting.since = True, None, now
                greeting.retry, greeting.other_version = Retry(), ""

    # -- time --------------------------------------------------------------------------------------

    def settle(self, now: float) -> list[Action]:
        """End joining when all answered, enough members of a running swarm did, or the time is over."""
        settled = self.joining and self._settled(now)
        if self._join_until is not None and (settled or now >= self._join_until):
            self._join_until = None
        missed = [] if self._join_until is not None else self._missed()
        if not settled:
            return missed
        self._course.step(Event.SETTLED)
        refusals = [(end, g.refused) for end, g in self._greetings.items() if g.refused]
        if not refusals or self.members.known:
            return missed
        endpoint, refused = refusals[0]
        if refused.reason == OTHER_SWARM:
            return [Fatal(f"{endpoint} runs another task or other parameters", refused.parameters, endpoint)]
        return [Fatal(f"{endpoint} refuses this node: {refused.reason}")]

    def _settled(self, now: float) -> bool:
        if self._settings.contacts.tracker and self.tracker_key is None:
            return False
        live = self.members.announced(self.members.live)
        under_way = any(announce.base.generation > 0 for announce in live)
        if under_way and len(live) + 1 >= self._settings.task.min_participants:
            return True
        resolved = all(g.answered or g.refused or g.other_version for g in self._greetings.values())
        return resolved or self._join_until is None or now >= self._join_until

    def unreachable(self, endpoint: str, now: float, why: str) -> list[Action]:
        """Nobody answers at an endpoint: retry at growing intervals, unless the peer there has left."""
        if endpoint == self._settings.contacts.tracker and why.startswith(OTHER_KEY):
            return [WrongTracker(endpoint, why)]
        there = self.members.at(endpoint)
        is_other = why.startswith((OLDER_VERSION, NEWER_VERSION, OTHER_VERSION))
        known = self._greetings.get(endpoint)
        may_be_back = now <= self._dialled_until or (known is not None and known.other_tls)
        if self._has_left(endpoint) and not is_other and not (_is_of_tls(why) and may_be_back):
            if known is not None:  # it has not come back: greet it no more
                known.answered, known.retry = True, replace(known.retry, at=None)
            return []
        greeting = self._greeting(endpoint, now) if there is not None else known
        if greeting is None:
            return []  # neither a member's endpoint nor greeted: no retry
        greeting.answered, greeting.why = False, why
        greeting.retry = greeting.retry.failed(now)
        if is_other:
            greeting.other_version = why
            answered = Notice(Note.OTHER_VERSION, endpoint, why, subject=f"{endpoint} {why}".encode())
            return [answered, *self.settle(now)]
        return [] if self._join_until is not None else self._missed()

    def _missed(self) -> list[Action]:
        """Notices of endpoints that could not be reached; called when joining is over."""
        missed = [(end, greeting) for end, greeting in self._greetings.items() if greeting.is_news]
        for _, greeting in missed:
            greeting.noticed = greeting.why
        return [Notice(Note.UNREACHABLE, endpoint, greeting.why) for endpoint, greeting in missed]

    def tick(self, now: float) -> list[Action]:
        """Retry greetings, end joining, and forget what has expired."""
        self.members.expire(now)
        self._forget(now)
        due = [end for end, greeting in self._greetings.items() if self._is_due(end, greeting, now)]
        actions = [action for endpoint in due for action in self.greet(endpoint, now)]
        return [*actions, *self.settle(now)]

    def _is_due(self, endpoint: str, greeting: Greeting, now: float) -> bool:
        """Whether to greet an endpoint, again or for its silence: a link may be cut though nobody noticed it.

        Two that have forgotten each other announce themselves to each other no more.
        """
        if greeting.retry.at is not None:
            return now >= greeting.retry.at
        is_silent = greeting.answered and now - greeting.since >= ANNOUNCE_LIFETIME_S
        return is_silent and endpoint != self._settings.contacts.tracker and not self._has_left(endpoint)

    def _forget(self, now: float) -> None:
        """Forget endpoints that are not configured, not a member's, and silent for GREETED_FOR_S."""
        named = set(self._configured)
        latest = self.members.latest
        ends = {announce.endpoint for announce in latest}
        self._greetings = {
            endpoint: greeting
            for endpoint, greeting in self._greetings.items()
            if endpoint in named or now - greeting.since < GREETED_FOR_S or endpoint in ends
        }
        self.clocks.keep({*(announce.key for announce in latest), self.tracker_key or b""})

    def compare_clocks(self) -> None:
        """Show the clocks, once this node has heard those of most of its peers.

        A late node learns of all peers from the first that answers, and for a moment knows only that one's
        clock.
        """
        if self.joining or not self.clocks.differ:
            return
        if self.clocks.most_heard(self.members.live):
            self.compared = self.clocks.ahead

    def announcing_due(self, now: float) -> bool:
        """Whether it is time to announce this node again."""
        return self._again_at is not None and now >= self._again_at

    @property
    def deadline(self) -> float | None:
        """When tick should be called at the latest."""
        retries = [greeting.retry.at for greeting in self._greetings.values()]
        times = [*retries, self._again_at, self._join_until if self.joining else None]
        return min((at for at in times if at is not None), default=None)

    def awaited(self) -> tuple[str, ...]:
        """The endpoints that have not answered yet."""
        return tuple(end for end, g in self._greetings.items() if not g.answered and not g.refused)
