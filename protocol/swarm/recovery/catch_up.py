"""Choosing and fetching the base that a node should hold: by certificate if possible, else by its line.

A node adopts only a base that ranks above its own. A member of the session that made it fetches the
certificate and recomputes the base. Other nodes fetch the line of the base (protocol.quorum.lineage), and
adopt the base if
- its links lead there from electors that this node knows, and more than half of the members whose updates it
  holds show it; after two failed rounds one live peer that shows it is enough;
- or, if the links lead from no known electors, more than half of the known members' signed announcements show
  it (Members.majority); then the node reports whom it trusted (protocol, Healing).

What failed is tried again ever more rarely: the same base from the same peer in the same way, and a peer that
keeps showing bases without delivering their lines.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial

from protocol.actions import Action, Adopted, Evidence, Healed, Serve
from protocol.aggregation.equivocation import caught
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_keys
from protocol.quorum.lineage import Line, follow, included_in, passed_in
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.recovery.backoff import RETRY_S, Backoff
from protocol.swarm.recovery.fetch import BaseFetch, CertificateFetch, Fetched, Past, ResultFetch
from protocol.swarm.requests import Answered
from protocol.transitions import Course, Step, Table
from protocol.wire import signing
from protocol.wire.ids import LINEAGE
from protocol.wire.masked_messages import Release, ResultCertificate
from protocol.wire.messages import NO_SID, Announce, Base, Key, Link, PieceRequest, Request, Sid, Sum

REMEMBERED_SESSIONS = 8


class Phase(Enum):
    """Whether a fetch is running."""

    IDLE = "idle"
    FETCHING = "fetching"


class Event(Enum):
    """What can happen to a fetch."""

    SHOWN = "a better base"
    FETCHED = "all, checked"
    FAILED = "no answer, or wrong"
    SESSION = "a session starts"
    GONE = "its source holds it no more"


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
    (Phase.FETCHING, Event.GONE): Step(
        Phase.IDLE, "the base that the source shows instead is looked for at once"
    ),
    (Phase.FETCHING, Event.SESSION): Step(Phase.IDLE, "what was fetched is looked for again afterwards"),
}
"""There are no other steps."""


_Try = tuple[bytes, Key, bool]
"""(digest of a base, its source, whether the fetch is by certificate)."""


class CatchUp:
    """Compares the bases that the members show with this node's, and runs one fetch at a time."""

    def __init__(self, settings: Settings, state: NodeState, members: Members, patience: Patience) -> None:
        self._settings = settings
        self._state = state
        self._members = members
        self._patience = patience
        self._fetch: CertificateFetch | ResultFetch | BaseFetch | None = None
        self._tries: Backoff[_Try] = Backoff()
        """So that all sources and both ways have a turn for one base."""
        self._trying: _Try | None = None
        self._sources: Backoff[Key] = Backoff(free=1)
        """Those that did not deliver a line: with ever new bases they must not occupy the one fetch."""
        self._retry_at: float | None = None
        self._course = Course(STEPS, Phase.IDLE)
        self._answered: dict[Key, Answered] = {}
        self.past: OrderedDict[Sid, Past] = OrderedDict()

    @property
    def busy(self) -> bool:
        """Whether a fetch is running."""
        return self._course.phase is Phase.FETCHING

    @property
    def expecting(self) -> bool:
        """Whether a fetch is running or is to be retried."""
        if self._fetch is not None or self._retry_at is None:
            return self._fetch is not None
        return self._members.anyone_above

    def remember(self, sid: Sid, past: Past) -> None:
        """Keep what is needed to check, and to serve, the certificate of a session.

        A session with an open vote may still have a result: it is kept until the vote is free.
        """
        self.past[sid] = past
        over = [other for other in self.past if other != sid and other not in self._state.votes]
        for other in over[: max(0, len(self.past) - REMEMBERED_SESSIONS)]:
            del self.past[other]

    def has_base_of(self, sid: Sid) -> bool:
        """Whether this node has the base that a session builds on; it keeps that base for an open vote."""
        past, state = self.past.get(sid), self._state
        return past is not None and (sid in state.votes or past.base in (state.base, state.previous))

    def look(self, now: float) -> list[Action]:
        """Start fetching a better base, if the members show one and no fetch is running."""
        if self._fetch is not None or not self._members.anyone_above:
            return []
        return self._begin(self._by_certificate(now) or self._by_line(now), now)

    def finish(self, certificate: ResultCertificate, sources: Iterable[Key], now: float) -> list[Action]:
        """Fetch the totals of a certificate that this node opened itself after its session."""
        sid = certificate.sid
        if self._fetch is not None or not self.has_base_of(sid):
            return []
        past = self.past[sid]
        scheme = self._settings.aggregation.scheme(len(past.members), past.base.generation)
        source = next((source for source in sources if self._fresh(past.base, source, True, now)), None)
        if source is None or scheme is None:
            return []
        return self._begin(ResultFetch(past, sid, source, self._settings, scheme, certificate), now)

    def _begin(self, fetch: CertificateFetch | ResultFetch | BaseFetch | None, now: float) -> list[Action]:
        self._fetch = fetch
        if fetch is None:
            return []
        self._course.step(Event.SHOWN)
        self._retry_at = None
        return fetch.start(now)

    def _fresh(self, base: Base, source: Key, certified: bool, now: float) -> bool:
        """Whether this source may be tried for this base, and so: the others are given a turn meanwhile."""
        attempt = (base.digest, source, certified)
        if self._tries.waits(attempt, now):
            self._retry_at = now + RETRY_S
            return False
        self._trying = attempt
        return True

    def _by_certificate(self, now: float) -> CertificateFetch | ResultFetch | None:
        mine = self._state.base
        for base, source in self._members.showing:
            if base.rank <= mine.rank:
                return None
            if self.has_base_of(base.sid) and self._fresh(base, source, True, now):
                past = self.past[base.sid]
                scheme = self._settings.aggregation.scheme(len(past.members), past.base.generation)
                if scheme is None:
                    return CertificateFetch(past, base.sid, source, self._settings)
                return ResultFetch(past, base.sid, source, self._settings, scheme)
        return None

    def _by_line(self, now: float) -> BaseFetch | None:
        """A fetch of a base that enough members show; its line is judged on arrival."""
        mine = self._state.base
        for base, source in self._members.showing:
            if base.rank <= mine.rank:
                return None
            is_same = base.sid == mine.sid and base.sid != NO_SID  # a session has one result
            shown = 2 * len(self._members.who_shows(base)) > base.members
            enough = shown or self._patience.is_trusting or self._majority(base)
            is_shunned = self._sources.waits(source, now)
            if enough and not is_same and not is_shunned and self._fresh(base, source, False, now):
                verify = partial(self._verified_line, base, source)
                return BaseFetch(base, source, self._settings, verify)
        return None

    def _majority(self, base: Base) -> tuple[Key, ...]:
        """The members that show this base if they are the majority (Members.majority), else none."""
        found = self._members.majority(self._settings.task.min_participants)
        return found[1] if found is not None and found[0] == base else ()

    def _verified_line(
        self, base: Base, source: Key, links: tuple[Link, ...]
    ) -> tuple[Line, tuple[Key, ...]] | None:
        """The line of a base, and the peers trusted for it (none if proved); None if nothing supports it."""
        strong = links if base.is_strong else links[:-1]
        # An upgrade of this node's folder has deleted all links since the last model with a quorum, those of
        # the other members, too. What they agreed on before it can only be taken on the majority's word.
        has_lost_its_links = self._state.base.anchor != 0 and self._state.line.electors is None
        is_after_upgrade = not links and has_lost_its_links
        if not (is_after_upgrade or _leads_to(links, strong, base)):
            return None
        liars = self._settings.quorum.liars
        electors = of_keys(included_in(strong[-1]), liars) if strong else None
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
        first = self._settings.quorum.electorate
        known = [*passed_in(self._state.line), *(() if first is None else ((0, first),))]
        return follow(strong, known) is not None

    def receive(self, message: Fetched, now: float) -> list[Action]:
        """Give a reply to the running fetch. Raises RemoteProtocolError if none is running."""
        if self._fetch is None:
            raise RemoteProtocolError(f"{type(message).__name__} that was not asked for")
        actions = self._fetch.receive(message, now)
        if self._fetch.failed:
            self._stop(Event.FAILED, now)
        elif any(isinstance(action, Healed | Adopted) for action in actions):
            self._stop(Event.FETCHED, now)
        return actions

    def unreachable(self, key: Key, now: float) -> None:
        """The source cannot be reached: try another at the next look."""
        if self._fetch is not None and self._fetch.source == key:
            self._stop(Event.FAILED, now)

    def shows(self, announce: Announce, now: float) -> None:
        """A peer announces a base: if it was asked for an earlier one than it still holds, ask for this one.

        A node holds its base and the one before.
        """
        fetch, base = self._fetch, announce.base
        if not isinstance(fetch, BaseFetch) or fetch.source != announce.key:
            return
        if base.rank > fetch.base.rank and base.generation != fetch.base.generation + 1:
            self._stop(Event.GONE, now)

    def arriving(self, key: Key, now: float) -> None:
        """Bulk of a peer is on its way here, and slow."""
        if self._fetch is not None and self._fetch.source == key:
            self._fetch.arriving(now)

    def tick(self, now: float) -> None:
        """Give up a stalled fetch; forget old failures."""
        if self._fetch is not None:
            self._fetch.tick(now)
            if self._fetch.failed:
                self._stop(Event.FAILED, now)
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        self._tries.forget(now)
        self._sources.forget(now)
        self._answered = {key: each for key, each in self._answered.items() if self._members.get(key)}

    def abandon(self, now: float) -> None:
        """A session starts on this node's base: stop the fetch, and look for the base again afterwards."""
        if self._fetch is not None:
            self._stop(Event.SESSION, now)

    def _stop(self, why: Event, now: float) -> None:
        self._course.step(why)
        if isinstance(self._fetch, BaseFetch) and why is Event.FETCHED:
            self._sources.succeeded(self._fetch.source)
        if isinstance(self._fetch, BaseFetch) and why is Event.FAILED:
            self._sources.failed(self._fetch.source, now)
        if self._trying is not None and why is Event.FAILED:
            self._tries.failed(self._trying, now)
        self._fetch = self._trying = None
        self._retry_at = now + RETRY_S

    @property
    def deadline(self) -> float | None:
        """When tick, and then look, should be called at the latest."""
        return self._fetch.deadline if self._fetch else self._retry_at

    def equivocation(self, late: Sum | Release) -> Evidence | None:
        """Evidence if what arrives after its session contradicts an earlier one of its sender; else None."""
        record = late.header if isinstance(late, Sum) else late.head
        past = self.past.get(record.sid)
        seen = past.seen.get(record.sender) if past else None
        if seen is None or seen == record:
            return None
        signing.verify(record, record.sender)
        return caught(seen, record)

    def serve(
        self, request: Request, by: Key | None, accepts: Callable[[Announce], bool]
    ) -> Serve | Announce:
        """Answer a request of a member of this swarm; certificates only for members of their session.

        Who asks for a base that this node does not hold is returned: it is to see the one that it holds.

        Raises RemoteProtocolError unless the request names this node, comes on its sender's link, and has a
        new number: a node answers each request once.
        """
        if by != request.sender or request.to != self._settings.key.public:
            raise RemoteProtocolError("a request on the link of another, or meant for another")
        announce = self._members.get(request.sender)
        if announce is None or not accepts(announce):
            raise RemoteProtocolError("a request of somebody who is not in this swarm")
        signing.verify(request, request.sender)
        past = self.past.get(request.sid)
        wants_base = isinstance(request, PieceRequest) and request.of in (b"", LINEAGE)
        if not wants_base and (past is None or request.sender not in past.members):
            raise RemoteProtocolError("a request for a session that its sender was not in")
        answered = self._answered.setdefault(request.sender, Answered())
        if not answered.takes(request.epoch, request.number):
            raise RemoteProtocolError("a request that came already")
        held = (base.digest for base in (self._state.base, self._state.previous) if base is not None)
        return announce if wants_base and request.sid not in held else Serve(announce.endpoint, request)


def _leads_to(links: tuple[Link, ...], strong: tuple[Link, ...], base: Base) -> bool:
    """Whether these links end at this base, and the `strong` ones among them at its anchor.

    The line of a base on the first anchor may be empty: no link made that anchor.
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
    """(session, generation, number of members) of the base that a link made."""
    parent = link.group.base
    return link.certificate.sid, parent.generation + 1, len(included_in(link))
