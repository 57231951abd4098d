"""An omniscient observer of masked sessions: which linear combinations of what was offered are determined.

Of a session it has every masked vector that anybody ever sent, late and useless ones too:

    y_i = x_i + G(b_i) + sum over j > i of G(K_ij) - sum over j < i of G(K_ij)      (protocol, Part II, D)

Unknowns are the units in the offers x, the self masks G(b_i) and the pairwise masks G(K_ij); an opened b_i,
or mask key s_k (then K_kj for all j), is none any more. Offers of the same unit in several sessions are one
unknown, so that sessions are seen together. A set of members is an int, as in the messages. A protocol
without self masks is one whose self masks are all known. Arithmetic as in `observer`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from protocol.aggregation.masked.thresholds import tolerance
from protocol.wire import signing
from protocol.wire.masked_messages import Masked, Release, ResultCertificate
from protocol.wire.messages import Group, Key, Message, Sid
from scenarios.simulator.network import Network
from tests.simulation.observer import Basis, Column, Row

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class MaskedSession:
    """What is known of one session.

    offers: (n) the units that each member's offer consists of; sent: whose masked vector was ever sent;
    self_masks, mask_keys: whose secret is opened; included: the members whose sum is meant to be known (0:
    none); colluders: the members who tell the observer all that they know.
    """

    sid: Sid
    offers: tuple[tuple[Column, ...], ...]
    sent: int
    self_masks: int
    mask_keys: int
    included: int
    colluders: int = 0

    @property
    def members(self) -> range:
        """Their numbers."""
        return range(len(self.offers))

    @property
    def rows(self) -> Iterator[Row]:
        """What each masked vector that was sent says of what is not known; the colluders' say nothing new."""
        sent = self.sent & ~self.colluders
        return (self._vector(member) for member in self.members if sent >> member & 1)

    def offered(self, members: int) -> Row:
        """The sum of what these members offered, without the colluders' own."""
        total: Row = {}
        for member in self.members:
            if (members & ~self.colluders) >> member & 1:
                for unit in self.offers[member]:
                    total[unit] = total.get(unit, 0) + 1
        return total

    def _vector(self, member: int) -> Row:
        row = self.offered(1 << member)
        if not self.self_masks >> member & 1:
            row["mask", self.sid, "self", member] = 1
        opened = self.mask_keys | self.colluders
        for other in self.members:
            if other != member and not opened & (1 << member | 1 << other):
                low, high = min(member, other), max(member, other)
                row["mask", self.sid, low, high] = 1 if member == low else -1
        return row


class MaskedObserver:
    """What follows from these sessions together."""

    def __init__(self, sessions: Sequence[MaskedSession]) -> None:
        self._sessions = tuple(sessions)
        self._basis = Basis()
        for session in self._sessions:
            for row in session.rows:
                self._basis.add(row)

    def knows(self, session: MaskedSession, members: int) -> bool:
        """Whether the sum of what these members offered in a session is determined."""
        return not self._basis.reduce(session.offered(members))

    def determined(self) -> list[Row]:
        """Combinations of units that are determined; all others that are determined are made of these."""
        return self._basis.unmasked()

    def exposed(self) -> list[Row]:
        """What is determined and does not follow from the sums that are meant to be known: should be none."""
        meant = Basis()
        for session in self._sessions:
            meant.add(session.offered(session.included))
        return [row for row in self.determined() if meant.reduce(row)]


def sessions_of(network: Network, dropouts: int | None, colluders: Iterable[int] = ()) -> list[MaskedSession]:
    """The masked sessions of a run; `dropouts` as in its settings, `colluders` by number of the peer.

    The offers are those that the network's rules noted when they were spent.
    """
    messages = [line.message for line in network.transcript]
    keys = frozenset(network.peers[peer].key.public for peer in colluders)
    return [
        session_of(messages, sid, members, _offers(network, sid, members), dropouts, keys)
        for sid, members in sorted(_groups(messages).items())
        if any(message.head.sid == sid for message in _of(messages, Masked))
    ]


def session_of(
    messages: Sequence[Message],
    sid: Sid,
    members: tuple[Key, ...],
    offers: tuple[tuple[Column, ...], ...],
    dropouts: int | None,
    colluders: frozenset[Key],
) -> MaskedSession:
    """What all messages of a run say of one session. `members` and `offers` (n) stand in key order.

    One chunk counts as the whole vector. A release counts by the set that its head names, whatever its
    shares are worth; the colluders hold a share of every secret, and say so.
    """
    numbers = {key: number for number, key in enumerate(members)}
    everybody = 2 ** len(members) - 1
    needed = tolerance(len(members), dropouts).threshold
    dealt = frozenset(numbers[key] for key in colluders if key in numbers)
    releases = [message.head for message in _of(messages, Release) if message.head.sid == sid]
    selves = {(numbers[head.sender], head.included) for head in releases}
    others = {(who, everybody & ~included) for who, included in selves}
    results = {message.included for message in _of(messages, ResultCertificate) if message.sid == sid}
    full = {u for _, u in selves if len(dealt | {who for who, included in selves if included == u}) >= needed}
    return MaskedSession(
        sid=sid,
        offers=offers,
        sent=_bits(numbers[m.head.sender] for m in _of(messages, Masked) if m.head.sid == sid),
        self_masks=_opened(selves, dealt, needed) | _union(results),
        mask_keys=_opened(others, dealt, needed) | _union(everybody & ~included for included in results),
        included=min(full | results, default=0),
        colluders=_bits(dealt),
    )


def _opened(shares: set[tuple[int, int]], dealt: frozenset[int], needed: int) -> int:
    """Of whom enough shares are known; `shares`: who gave some, and of whom."""
    named = _union(whose for _, whose in shares)
    return _bits(
        member
        for member in range(named.bit_length())
        if named >> member & 1
        and len(dealt | {who for who, whose in shares if whose >> member & 1}) >= needed
    )


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def _union(sets: Iterable[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union


def _of(messages: Iterable[Message], kind: type[Kind]) -> Iterator[Kind]:
    return (message for message in messages if isinstance(message, kind))


def _groups(messages: Iterable[Message]) -> dict[Sid, tuple[Key, ...]]:
    found: dict[Sid, tuple[Key, ...]] = defaultdict(tuple)
    for group in _of(messages, Group):
        found[signing.session_id(group)] = tuple(sorted(ready.key for ready in group.readys))
    return found


def _offers(network: Network, sid: Sid, members: tuple[Key, ...]) -> tuple[tuple[Column, ...], ...]:
    """(n) What was spent in a session; who spent nothing has no units."""
    offers = []
    for key in members:
        peer, units = network.rules.offers.get((sid, key), (0, ()))
        offers.append(tuple(("unit", peer, unit) for unit in units))
    return tuple(offers)
