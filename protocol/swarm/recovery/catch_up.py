"""Which base a node should hold, and getting it: certificates first, then a line that can be followed.

Only a base that ranks above one's own is taken. A member of the session that made it fetches the
certificate and recomputes it. Everybody else fetches the line of the base (protocol.quorum.lineage), and
takes it if
- its links lead there from electors that this node knows, and more than half of those whose updates it holds
  show it; after two failed rounds one live peer that shows it is enough;
- or, where they lead from nobody it knows, more than half of the known members' signed announcements show it
  (Members.majority says whose): then it says whom it trusted (protocol, Healing).

Who shows a base again and again and does not give its line is asked ever more rarely.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial

from protocol.actions import Action, Adopted, Evidence, Healed, Serve
from protocol.aggregation.additive.machine import TWO_SUMS
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_keys
from protocol.quorum.lineage import Line, follow, included_in, passed_in
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.recovery.fetch import BaseFetch, CertificateFetch, Fetched, Past, ResultFetch
from protocol.swarm.requests import Answered
from protocol.transitions import Course, Step, Table
from protocol.wire import codec
from protocol.wire.ids import LINEAGE
from protocol.wire.masked_messages import ResultCertificate
from protocol.wire.messages import NO_SID, Announce, Base, Key, Link, Message, PieceRequest, Request, Sid, Sum

REMEMBERED_SESSIONS = 8
RETRY_S = 2.0
MAX_DOUBLINGS = 8
"""Who fails again and again is asked for a line after 4 s, 8 s, ..., 512 s."""


class Phase(Enum):
    """Whether something is fetched."""

    IDLE = "idle"
    FETCHING = "fetching"


class Event(Enum):
    """What a fetch meets with."""

    SHOWN = "a better base"
    FETCHED = "all, checked"
    FAILED = "no answer, or wrong"
    SESSION = "a session starts"


STEPS: Table[Phase, Event] = {
    (Phase.IDLE, Event.SHOWN): Step(
        Phase.FETCHING,
        "a CertificateRequest to one who shows it, then a PieceRequest for each piece; who was not in the "
        "session that made it asks for each LineagePiece, and then for each BasePiece",
    ),
    (Phase.FETCHING, Event.FETCHED): Step(
        Phase.IDLE,
        "Healed, by a Certificate and each Sum, or a ResultCertificate and each TotalPiece; or Adopted",
    ),
    (Phase.FETCHING, Event.FAILED): Step(Phase.IDLE, "another source is tried, or after 2 s the same"),
    (Phase.FETCHING, Event.SESSION): Step(Phase.IDLE, "what was fetched is looked for again afterwards"),
}
"""There are no other steps."""


_Try = tuple[bytes, Key, bool]
"""The digest of a base, who is asked for it, and whether for its certificate."""


class CatchUp:
    """Looks at what the members show and runs one fetch at a time."""

    def __init__(self, settings: Settings, state: NodeState, members: Members, patience: Patience) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._patience = patience
        self._fetch: CertificateFetch | ResultFetch | BaseFetch | None = None
        self._tried: dict[_Try, float] = {}
        self._trying: _Try | None = None
        self._failures: dict[Key, tuple[int, float]] = {}
        """Who showed a base that it did not give: how often in a row, and until when it is not asked."""
        self._retry_at: float | None = None
        self._course = Course(STEPS, Phase.IDLE)
        self._answered: dict[Key, Answered] = {}
        self.past: OrderedDict[Sid, Past] = OrderedDict()

    @property
    def busy(self) -> bool:
        """Whether something is being fetched."""
        return self._course.phase is Phase.FETCHING

    @property
    def expecting(self) -> bool:
        """Whether a base is being fetched, or is to be tried again."""
        if self._fetch is not None or self._retry_at is None:
            return self._fetch is not None
        return self._members.anyone_above(self._state.round, self._state.base)

    def remember(self, sid: Sid, past: Past) -> None:
        """Keep what is needed to check, and to serve, the certificate of a session.

        Where a vote is open there may still be a result: that session is not forgotten before it is free.
        """
        self.past[sid] = past
        over = [other for other in self.past if other != sid and other not in self._state.votes]
        for other in over[: max(0, len(self.past) - REMEMBERED_SESSIONS)]:
            del self.past[other]

    def has_base_of(self, sid: Sid) -> bool:
        """Whether this node has the base that a session builds on: with an open vote it keeps that."""
        past, state = self.past.get(sid), self._state
        return past is not None and (sid in state.votes or past.base in (state.base, state.previous))

    def look(self, now: float) -> list[Action]:
        """Start fetching a better base, if the members show one and nothing is being fetched."""
        if self._fetch is not None or not self._members.anyone_above(self._state.round, self._state.base):
            return []
        return self._begin(self._by_certificate(now) or self._by_line(now), now)

    def finish(self, certificate: ResultCertificate, sources: Iterable[Key], now: float) -> list[Action]:
        """A certificate that this node opened itself, afterwards: fetch the totals that it is for."""
        sid, masked = certificate.sid, self._settings.masked
        if self._fetch is not None or masked is None or not self.has_base_of(sid):
            return []
        past = self.past[sid]
        source = next((source for source in sources if self._fresh(past.base, source, True, now)), None)
        if source is None:
            return []
        return self._begin(ResultFetch(past, sid, source, self._settings, masked, certificate), now)

    def _begin(self, fetch: CertificateFetch | ResultFetch | BaseFetch | None, now: float) -> list[Action]:
        self._fetch = fetch
        if fetch is None:
            return []
        self._course.step(Event.SHOWN)
        self._retry_at = None
        return fetch.start(now)

    def _fresh(self, base: Base, source: Key, certified: bool, now: float) -> bool:
        """Whether this source has not failed us for this base lately."""
        attempt = (base.digest, source, certified)
        if now < self._tried.get(attempt, now):
            self._retry_at = now + RETRY_S
            return False
        self._trying = attempt
        return True

    def _by_certificate(self, now: float) -> CertificateFetch | ResultFetch | None:
        mine = self._state.base
        for base, source in self._members.showing(self._state.round):
            if base.rank <= mine.rank:
                return None
            if self.has_base_of(base.sid) and self._fresh(base, source, True, now):
                return self._fetch_for(self.past[base.sid], base.sid, source)
        return None

    def _fetch_for(self, past: Past, sid: Sid, source: Key) -> CertificateFetch | ResultFetch:
        masked = self._settings.masked
        if masked is not None and len(past.members) >= LEAST_MEMBERS:
            return ResultFetch(past, sid, source, self._settings, masked)
        return CertificateFetch(past, sid, source, self._settings)

    def _by_line(self, now: float) -> BaseFetch | None:
        """A base that somebody shows, where enough do; the line of it is judged when it is here."""
        mine, round = self._state.base, self._state.round
        for base, source in self._members.showing(round):
            if base.rank <= mine.rank:
                return None
            is_same = base.sid == mine.sid and base.sid != NO_SID  # of one session there is one result
            shown = 2 * len(self._members.who_shows(base)) > base.members
            enough = shown or self._patience.is_trusting or self._majority(base)
            _, shunned_until = self._failures.get(source, (0, now))
            if enough and not is_same and now >= shunned_until and self._fresh(base, source, False, now):
                judge = partial(self._judged, base, source)
                return BaseFetch(base, source, self._settings, judge)
        return None

    def _majority(self, base: Base) -> tuple[Key, ...]:
        """Who shows this base, if they are more than half of the known members that offer."""
        found = self._members.majority(self._state, self._settings.min_participants)
        return found[1] if found is not None and found[0] == base else ()

    def _judged(
        self, base: Base, source: Key, links: tuple[Link, ...]
    ) -> tuple[Line, tuple[Key, ...]] | None:
        """The line of a base, and on whose word; None if that does not suffice."""
        strong = links if base.is_strong else links[:-1]
        if not _leads_to(links, strong, base):
            return None
        electors = of_keys(included_in(strong[-1])) if strong else None
        line = Line(base.anchor, electors, strong, None if base.is_strong or not links else links[-1])
        if links and self._is_proved(base, strong):
            included = included_in(links[-1])
            showing = self._members.who_shows(base) & set(included)
            if 2 * len(showing) > len(included):
                return line, ()
            if self._patience.is_trusting:
                return line, (source,)
        trusted = self._majority(base)
        return (line, trusted) if trusted else None

    def _is_proved(self, base: Base, strong: tuple[Link, ...]) -> bool:
        """Whether these links lead to the anchor from electors that this node knows."""
        if not strong:
            return base.anchor == self._state.base.anchor
        own = self._state.line.links
        if own and strong[-1].certificate.sid == own[-1].certificate.sid:
            return True  # the anchor is this node's own
        first = self._settings.electorate
        known = [*passed_in(self._state.line), *(() if first is None else ((0, first),))]
        return follow(strong, known) is not None

    def receive(self, message: Fetched, now: float) -> list[Action]:
        """A reply to what is being fetched."""
        if self._fetch is None:
            raise RemoteProtocolError(f"{type(message).__name__} that was not asked for")
        actions = self._fetch.receive(message, now)
        if self._fetch.failed:
            self._stop(Event.FAILED, now)
        elif any(isinstance(action, Healed | Adopted) for action in actions):
            self._stop(Event.FETCHED, now)
        return actions

    def unreachable(self, key: Key, now: float) -> None:
        """The source is gone: try another at the next look."""
        if self._fetch is not None and self._fetch.source == key:
            self._stop(Event.FAILED, now)

    def tick(self, now: float) -> None:
        """Give up a fetch that stands still; forget old failures."""
        if self._fetch is not None:
            self._fetch.tick(now)
            if self._fetch.failed:
                self._stop(Event.FAILED, now)
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        self._tried = {key: until for key, until in self._tried.items() if until > now}
        self._answered = {key: each for key, each in self._answered.items() if self._members.get(key)}
        self._failures = {key: each for key, each in self._failures.items() if self._members.get(key)}

    def abandon(self, now: float) -> None:
        """A session starts on the base that this node has: what it fetches is looked for again afterwards."""
        if self._fetch is not None:
            self._stop(Event.SESSION, now)

    def _stop(self, why: Event, now: float) -> None:
        self._course.step(why)
        if isinstance(self._fetch, BaseFetch):
            self._count(self._fetch.source, why, now)
        if self._trying is not None and why is Event.FAILED:
            self._tried[self._trying] = now + RETRY_S
        self._fetch = self._trying = None
        self._retry_at = now + RETRY_S

    def _count(self, source: Key, why: Event, now: float) -> None:
        """Who shows what it does not give is not asked all the time: nothing else is done meanwhile."""
        if why is Event.FETCHED:
            self._failures.pop(source, None)
        elif why is Event.FAILED:
            times = min(self._failures.get(source, (0, now))[0] + 1, MAX_DOUBLINGS + 1)
            wait_s = RETRY_S * 2 ** (times - 1) if times > 1 else 0.0  # once may happen to anybody
            self._failures[source] = times, now + wait_s

    @property
    def deadline(self) -> float | None:
        """When tick, and then look, should be called at the latest."""
        return self._fetch.deadline if self._fetch else self._retry_at

    def equivocation(self, late: Sum) -> Evidence | None:
        """A SUM that comes after its session is over changes nothing, but may contradict an earlier one."""
        past = self.past.get(late.sid)
        seen = past.seen.get(late.sender) if past else None
        if seen is None or seen == late.header:
            return None
        codec.verify(late, late.sender)
        return Evidence(late.sender, TWO_SUMS, (seen, late.header))

    def serve(self, request: Message, by: Key | None, accepts: Callable[[Announce], bool]) -> list[Action]:
        """Answer a member of this swarm; certificates only to who was in their session.

        A request is answered once: it names this node, comes on a link of its sender, and its number did not
        come before.
        """
        if not isinstance(request, Request):
            raise RemoteProtocolError(f"a peer takes no {type(request).__name__}")
        if by != request.sender or request.to != self._settings.key.public:
            raise RemoteProtocolError("a request on the link of another, or meant for another")
        announce = self._members.get(request.sender)
        if announce is None or not accepts(announce):
            raise RemoteProtocolError("a request of somebody who is not in this swarm")
        codec.verify(request, request.sender)
        past = self.past.get(request.sid)
        wants_base = isinstance(request, PieceRequest) and request.of in (b"", LINEAGE)
        if not wants_base and (past is None or request.sender not in past.members):
            raise RemoteProtocolError("a request for a session that its sender was not in")
        answered = self._answered.setdefault(request.sender, Answered())
        if not answered.takes(request.epoch, request.number):
            raise RemoteProtocolError("a request that came already")
        return [Serve(announce.endpoint, request)]


def _leads_to(links: tuple[Link, ...], strong: tuple[Link, ...], base: Base) -> bool:
    """Whether these links end at this base, and the `strong` ones of them at its anchor.

    The line of a base on the first anchor may be unknown: no link made that one.
    """
    if not strong and base.anchor != 0:
        return False
    if strong and _made_by(strong[-1])[1] != base.anchor:
        return False
    if not links:
        return True
    is_on_anchor = base.is_strong or links[-1].group.base.anchor == base.anchor
    return is_on_anchor and _made_by(links[-1]) == (base.sid, base.generation, base.members)


def _made_by(link: Link) -> tuple[Sid, int, int]:
    """The session, the generation and the number of members of the base that it made."""
    parent = link.group.base
    return link.certificate.sid, parent.generation + 1, len(included_in(link))
