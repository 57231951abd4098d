"""What a machine asks its shell to do. The shell carries actions out in the order of the list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from protocol.quorum.lineage import Line
from protocol.vectors.pieces import Floats
from protocol.wire.bulk import Bulk
from protocol.wire.codec import Signed
from protocol.wire.masked_messages import Release, ResultCertificate, TotalPiece
from protocol.wire.messages import (
    Base,
    Certificate,
    CertificateRequest,
    Group,
    Key,
    Message,
    PieceRequest,
    Sid,
    Sum,
)


class Reason(StrEnum):
    """Why a round ended with one's own update."""

    GROUP_TIMEOUT = "group-timeout"
    SHARES_TIMEOUT = "shares-timeout"
    SUMS_TIMEOUT = "sums-timeout"
    CONTRIBUTORS_DIFFER = "contributors-differ"
    JOINS_TIMEOUT = "joins-timeout"
    """A masked session did not begin: nothing that depends on the offer was sent."""
    MASKS_TIMEOUT = "masks-timeout"
    """More fell silent in a masked session than it tolerates."""
    CAUGHT = "caught"
    """Somebody lied in a masked session, and is banned."""
    WRONG_COUNT = "wrong-count"
    """Somebody's masked vector was not made as the protocol says; nobody can say whose."""
    WRONG_WEIGHTS = "wrong-weights"
    """The sum of the weights is none that honest members have; nobody can say whose is wrong."""
    BUDGET_SPENT = "budget-spent"
    """Nothing was offered: a round of a node that follows."""
    SWARM_FINISHED = "swarm-finished"
    """Nothing was offered: the others ended the last round, and too few are left for a group."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send these messages, in order, to a node key (in a machine) or an endpoint (in a session).

    `messages` are a value, whatever becomes of the machine: those that are there, or such as are built one by
    one, as fast as the wire takes them (protocol.wire.bulk).
    """

    to: Key | str
    messages: tuple[Message, ...] | Bulk[Message]
    bulk: bool = False
    """Whether they are large, and may hold up no small message to the same node."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Send these back on the link that brought the message which is being taken in, and nowhere else.

    Nobody is dialled for them: where that link is gone, so are they.
    """

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Spend:
    """Before anything after this action is carried out: record durably that the offer is spent in `sid`."""

    sid: Sid
    round: int
    clipped: int
    """How many coordinates of the offer were cut to the bound."""


@dataclass(frozen=True, slots=True)
class OpenVote:
    """What a node must remember of its vote until the session has a result, or provably never will.

    `anchor`: of the base that the session builds on. `proof` holds what this member knows of the result, and
    in place of what only others know nothing: with t releases it is whole. A resignation has no group.
    """

    sid: Sid
    anchor: int
    group: Group | None = None
    proof: Certificate | ResultCertificate | None = None
    release: Release | None = None
    parts: tuple[Sum, ...] | Bulk[Sum] = ()
    """Its own sum, where shares are summed: what `Keep` stored."""


@dataclass(frozen=True, slots=True)
class Vote:
    """Before anything after this action is carried out: record durably that this node's vote is bound.

    The base that its session builds on is kept as long as the vote is open, whatever bases come meanwhile:
    who voted may be the only ones who can still make the result.
    """

    vote: OpenVote


@dataclass(frozen=True, slots=True)
class Unbind:
    """The vote in `sid` can never count any more: it is free again."""

    sid: Sid


@dataclass(frozen=True, slots=True)
class Keep:
    """Store these, by sid, whose they are (a total is the group's: nobody's key) and index.

    They are what a certificate is about. A later one with the same place takes the place of the earlier one.
    """

    parts: tuple[Sum | TotalPiece, ...] | Bulk[Sum]


@dataclass(frozen=True, slots=True)
class Completed:
    """The mean of what `contributors` offered, (Settings.summed,) float32, on `group`'s base.

    `certificate` proves it. `contributors`, in key order: a masked session may end without some of its group,
    this node among them. `line`: where the base that comes of it stands. `without`: the electors, for people,
    that the quorum counted as gone for good.
    """

    group: Group
    sid: Sid
    round: int
    mean: Floats
    contributors: tuple[Key, ...]
    certificate: Certificate | ResultCertificate
    line: Line | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The round ends with one's own update. `sid` is None where no group was found."""

    reason: Reason
    round: int
    missing: tuple[Key, ...]
    sid: Sid | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What shows that `sender` broke the protocol; it is banned. `what` says how, in words.

    `records` are signed by it.
    """

    sender: Key
    what: str
    records: tuple[Signed, ...]


@dataclass(frozen=True, slots=True)
class Healed:
    """A certificate of a session this node was in, with its mean, (Settings.summed,), on `group`'s base.

    `without`: as of `Completed`.
    """

    group: Group
    sid: Sid
    mean: Floats
    contributors: tuple[Key, ...]
    certificate: Certificate | ResultCertificate
    source: Key
    line: Line | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Adopted:
    """A base that others made, fetched and checked against its digest, and the `line` that it stands in.

    `trusted`: on whose word, where it was not proved by who made it.
    """

    base: Base
    vector: Floats
    trusted: tuple[Key, ...]
    line: Line


@dataclass(frozen=True, slots=True)
class Serve:
    """Load what is asked for, if it is kept, and send it to `to`."""

    to: str
    request: CertificateRequest | PieceRequest


@dataclass(frozen=True, slots=True)
class RaiseEpoch:
    """Store durably, before anything after this action, that this node's epoch is the one after `above`.

    A peer showed an announcement of this node's own key with that epoch: this folder is older than it.
    """

    above: int


class Note(StrEnum):
    """Kinds of things a user is told."""

    JOINED = "joined"
    LEFT = "left"
    LOST = "lost"
    COORDINATOR = "coordinator"
    OTHER_SWARM = "other-swarm"
    NOT_ALLOWED = "not-allowed"
    WRONG_PIN = "wrong-pin"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    CLOCK = "clock"
    EPOCH = "epoch"
    WAITING = "waiting"
    """No group forms that may make a strong base (protocol.swarm.votes.obstacle)."""
    WEAK = "weak"
    """A base was made without a quorum of its electors."""
    QUORUM = "quorum"
    """A base was made by a quorum, after a notice that there is none."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a user is told; nothing depends on it. `text` says what about `who`."""

    kind: Note
    who: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fatal:
    """This node cannot take part as it is configured: one line that says why.

    `parameters`: the other side's canonical parameters, where those differ; else empty.
    """

    text: str
    parameters: str = ""


@dataclass(frozen=True, slots=True)
class TrackerKnown:
    """Before anything after this action is carried out: keep durably that the tracker there has this key."""

    endpoint: str
    key: Key


@dataclass(frozen=True, slots=True)
class Named:
    """Before anything after this action is carried out: keep durably whom this tracker named in a swarm."""

    task: str
    parameters: bytes
    electors: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class WrongTracker:
    """Another tracker than is pinned, or was met at first, answers there: this node goes no further.

    `text`: which key it holds, and which was expected.
    """

    endpoint: str
    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Every member confirmed the last base, or the time to linger is over."""


# -- a federation with a server ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assembled:
    """The nodes that the server waited for are here, or the wait is over: rounds may begin."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What clients sent in a round, (d,) float32 each, in the order in which they were chosen."""

    round: int
    uploads: Mapping[int, Floats]


@dataclass(frozen=True, slots=True)
class Train:
    """Train these clients, each from `model` (d,) float32; whatever an earlier order asked for is over."""

    round: int
    model: Floats
    clients: tuple[int, ...]


Action = (
    Send
    | Reply
    | Spend
    | Vote
    | Unbind
    | Keep
    | Completed
    | Failed
    | Evidence
    | Healed
    | Adopted
    | Serve
    | RaiseEpoch
    | Notice
    | Fatal
    | TrackerKnown
    | Named
    | WrongTracker
    | Closed
    | Assembled
    | Gathered
    | Train
)
