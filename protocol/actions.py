"""The actions that a machine asks its shell to carry out, in the order of the list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from protocol.quorum.lineage import Line
from protocol.vectors.pieces import Floats, Vector
from protocol.wire.bulk import Bulk
from protocol.wire.fields import Signed
from protocol.wire.masked_messages import Release, ResultCertificate, TotalPiece
from protocol.wire.messages import (
    Base,
    Certificate,
    CertificateRequest,
    ChargeCount,
    Charged,
    Group,
    Key,
    Message,
    Parting,
    PieceRequest,
    Sid,
    Sum,
    Vouch,
)


class Reason(StrEnum):
    """Why a round ended with only this node's own update."""

    GROUP_TIMEOUT = "group-timeout"
    SHARES_TIMEOUT = "shares-timeout"
    SUMS_TIMEOUT = "sums-timeout"
    CONTRIBUTORS_DIFFER = "contributors-differ"
    JOINS_TIMEOUT = "joins-timeout"
    """A masked session did not begin: the node sent nothing that depends on the offer."""
    MASKS_TIMEOUT = "masks-timeout"
    """More members fell silent in a masked session than it tolerates."""
    CAUGHT = "caught"
    """Somebody lied in a masked session, and is banned."""
    WRONG_COUNT = "wrong-count"
    """Some member's masked vector does not follow the protocol; nobody can tell whose."""
    WRONG_WEIGHTS = "wrong-weights"
    """Honest members cannot have this sum of weights; nobody can tell whose is wrong."""
    BUDGET_SPENT = "budget-spent"
    """A follower's round: it made no offer."""
    LATE_MEMBER = "late-member"
    """A follower's round: all sums have the members of the first one, and this node came later."""
    ALL_SPENT = "all-spent"
    """No sum can come any more: so many budgets are spent that the other members are too few for a group."""
    OUTDATED = "outdated"
    """A newer base came while the node's step waited for a group: it offered nothing, and makes another."""
    SWARM_FINISHED = "swarm-finished"
    """The node offered nothing: its run is over, or that of others, and too few are left for a group."""


FOLLOWED = frozenset({Reason.BUDGET_SPENT, Reason.LATE_MEMBER, Reason.ALL_SPENT})
"""Why rounds end without an offer that nobody failed to take."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send these messages, in order, to a node key (inside a node) or an endpoint (for the shell).

    `messages` are a value that later events do not change: a tuple, or messages built one by one as fast as
    the wire sends them (protocol.wire.bulk).
    """

    to: Key | str
    messages: tuple[Message, ...] | Bulk[Message]
    bulk: bool = False
    """Whether they are large and must not delay small messages to the same node."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Send these messages back on the link that brought the current message, and nowhere else.

    The shell dials nobody for them: if that link is gone, it drops them.
    """

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Spend:
    """Before anything after this action is carried out: record durably that the offer is spent in `sid`."""

    sid: Sid
    round: int
    clipped: int
    """The number of the offer's coordinates that were clipped to the bound."""


@dataclass(frozen=True, slots=True)
class OpenVote:
    """What a node must remember of its vote until the session has a result, or provably never will.

    `anchor`: that of the base that the session builds on. `proof`: the certificate as far as this member
    knows it; t releases complete it. A resignation has no group.
    """

    sid: Sid
    anchor: int
    group: Group | None = None
    proof: Certificate | ResultCertificate | None = None
    release: Release | None = None
    parts: tuple[Sum, ...] | Bulk[Sum] = ()
    """The node's own sum in an additive session, as `Keep` stored it."""


@dataclass(frozen=True, slots=True)
class Vote:
    """Before anything after this action is carried out: record durably that this node's vote is bound.

    The shell keeps the base that the session builds on as long as the vote is open, even if newer bases come:
    perhaps only the voters can still make the result.

    `goes_on`: if the session succeeds, another step of its run follows. The shell may then record with the
    vote that the next offer is spent; a Spend that follows finds it recorded.
    """

    vote: OpenVote
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Unbind:
    """The vote in `sid` can never count again: free it."""

    sid: Sid


@dataclass(frozen=True, slots=True)
class Keep:
    """Store these by sid, owner (NOBODY for a total, which is the group's) and index.

    A certificate names them. A later part with the same sid, owner and index replaces the earlier one.
    """

    parts: tuple[Sum | TotalPiece, ...] | Bulk[Sum] | Bulk[TotalPiece]


@dataclass(frozen=True, slots=True)
class Elector:
    """One of the electors of a base. `name`: where it listens, or how its key begins. `key`: if known."""

    name: str
    key: Key | None = None
    is_me: bool = False
    is_bound: bool = False
    """Whether a vote of it for another base is open."""


@dataclass(frozen=True, slots=True)
class Completed:
    """What the sum of the offers of `contributors` decodes to, on `group`'s base, as long as an offer there.

    In fixed point it is their mean, float32; of whole numbers their sum, uint32.

    `certificate` proves it. `contributors`, in key order: a masked session may end without some of its group,
    even without this node. `line`: the line of the base that it makes. `without`: the electors that
    the quorum counted as gone for good.
    """

    group: Group
    round: int
    result: Vector
    contributors: tuple[Key, ...]
    certificate: Certificate | ResultCertificate
    line: Line | None = None
    without: tuple[Elector, ...] = ()
    withheld: Withheld | None = None
    """Who owed what when the time of a view was over: the sum waited, and went on without it."""

    @property
    def sid(self) -> Sid:
        """The session."""
        return self.certificate.sid


class Due(StrEnum):
    """What a member of a session owed this node, in words; in the order in which a session needs it."""

    JOIN = "its join"
    """Before the vote for the joins, too, no offer is used: a session that fails costs only time."""
    JOINED = "its vote for the joins"
    SHARE = "its share"
    SUM = "its sum"
    VECTOR = "its masked vector"
    VOTE = "its vote for another view"
    TOTAL = "its total"
    ANSWER = "its check, acknowledgement or release"


@dataclass(frozen=True, slots=True)
class Withheld:
    """In session `sid`, which failed here or waited, `due` of the members `keys` did not arrive here.

    This is what one node saw, and no proof. A node sees only what is sent to it. A liar may send to some
    members only, an honest member may be slow, have died, or be cut off from this node alone. Only what a
    member could send without hearing from anybody else (a join, a share, a vector, a vote) is certainly its
    own to send; it may owe a total or an answer because another withheld something from it. Where a member
    has said so itself (in its vote for a view), it is not named.
    """

    sid: Sid
    due: Due
    keys: tuple[Key, ...]
    disputes: tuple[tuple[Key, Key], ...] = ()
    """(who lacks a message, whose): one of the two lies, or their link is cut."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The round ends with only this node's own update. `sid` is None if it found no group.

    `missing`: whom this node waited for at the end. `withheld`: who owed it something, if it can tell.
    """

    reason: Reason
    round: int
    missing: tuple[Key, ...]
    sid: Sid | None
    withheld: Withheld | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Proof that `sender` broke the protocol; it is banned. `what` says how, in words.

    `sender` signed the `records`.
    """

    sender: Key
    what: str
    records: tuple[Signed, ...]


@dataclass(frozen=True, slots=True)
class Healed:
    """A certificate of a session this node was in, with its result, on `group`'s base.

    `line` and `without`: as in `Completed`.
    """

    group: Group
    result: Vector
    contributors: tuple[Key, ...]
    certificate: Certificate | ResultCertificate
    source: Key
    line: Line | None = None
    without: tuple[Elector, ...] = ()

    @property
    def sid(self) -> Sid:
        """The session."""
        return self.certificate.sid


@dataclass(frozen=True, slots=True)
class Adopted:
    """A base that others made, fetched and checked against its digest, and its `line`.

    `trusted`: the peers that this node trusted for it; empty if its makers' signatures prove it.
    """

    base: Base
    vector: Floats
    trusted: tuple[Key, ...]
    line: Line


@dataclass(frozen=True, slots=True)
class Serve:
    """Load what `request` asks for, if the shell keeps it, and send it to `to`."""

    to: str
    request: CertificateRequest | PieceRequest


@dataclass(frozen=True, slots=True)
class RaiseEpoch:
    """Store durably, before anything after this action, that this node's epoch is the one after `above`.

    A peer showed an announcement of this node's own key with the epoch `above`: this folder is older.
    """

    above: int


@dataclass(frozen=True, slots=True)
class KeepCharged:
    """Store a member's count of charges in place of its earlier one, and forget that of `instead_of`."""

    charged: Charged
    instead_of: Key | None = None


@dataclass(frozen=True, slots=True)
class Vouched:
    """A member has given its word for a newcomer: keep it for the owner, who may accept the newcomer."""

    vouch: Vouch


@dataclass(frozen=True, slots=True)
class LedgerBehind:
    """This node's own signature shows the count `shown`, of which its ledger lacks some: it must stop.

    `known`: the count of the ledger.
    """

    shown: ChargeCount
    known: ChargeCount


class Note(StrEnum):
    """The kinds of notices to the user."""

    JOINED = "joined"
    LEFT = "left"
    LOST = "lost"
    COORDINATOR = "coordinator"
    OTHER_SWARM = "other-swarm"
    NOT_ALLOWED = "not-allowed"
    WRONG_PIN = "wrong-pin"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    OTHER_VERSION = "other-version"
    """A peer that this node dialled speaks another version of the protocol."""
    CLOCK = "clock"
    EPOCH = "epoch"
    WAITING = "waiting"
    """No group that may make a strong base can form (protocol.swarm.votes.obstacle)."""
    WEAK = "weak"
    """A group made a base without a quorum of the electors."""
    QUORUM = "quorum"
    """A quorum made a base, after a notice that there was none."""
    SLOW = "slow"
    """The last rounds waited for this peer."""
    BEHIND = "behind"
    """This peer's last round is lower than this node's."""
    WITHHOLDS = "withholds"
    """Sessions failed for want of this peer's messages (protocol.swarm.meeting.suspicion)."""
    FOLLOWS = "follows"
    """Somebody with whom this node does not learn coordinates the others."""
    STAYS = "stays"
    """The run is over here; for `text` minutes at most this node stays to give this peer the last base."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened to the peer at `who`, to be put in words; empty: to this machine.

    `text`: the reason, as another program gave it, or how the peer's key begins. `parting`: why it left, if
    it said so. `subject`: of one kind, the first notice about a subject says it all; empty: each is news.
    """

    kind: Note
    who: str
    text: str = ""
    parting: Parting | None = None
    subject: bytes = b""


@dataclass(frozen=True, slots=True)
class Waiting:
    """This node's offer has waited long for a group, or its round failed: see `Picture.hindered`.

    `is_anew`: it begins to wait once more, as long as before.
    """

    is_anew: bool = False


class Fault(Enum):
    """For what a member gets a strike."""

    FAILED = "it did not send its part, and the sum failed"
    WAITED = "it did not send its part, and the sum waited for it"
    CONTRADICTS = "it contradicts more than one other about what was due"
    IN_TWO = "it is in two groups at once for one base"


@dataclass(frozen=True, slots=True)
class Strike:
    """A member got a strike, and is left out of the next sum, or of those of so many `rounds`.

    `due`: what it owed. `is_first`: it is left out of the next sum alone; of those `rounds` the next time.
    """

    key: Key
    fault: Fault
    due: Due | None
    rounds: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class TakenIn:
    """A member is no longer left out: its time is over, or it has taken part in a sum to its end."""

    key: Key
    is_time_over: bool


@dataclass(frozen=True, slots=True)
class Fatal:
    """This node cannot take part as it is configured: one line that says why.

    `parameters`: the other side's canonical parameters if they differ; else empty. `who`: its endpoint.
    """

    text: str
    parameters: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True)
class TrackerKnown:
    """Before anything after this action is carried out: store durably that the tracker there has this key."""

    endpoint: str
    key: Key


@dataclass(frozen=True, slots=True)
class Named:
    """Before anything after this action is carried out: store durably the electors that a tracker named."""

    task: str
    parameters: bytes
    electors: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class WrongTracker:
    """The tracker's key is not the pinned one, or not the first one it showed: the node must stop.

    `text`: the key that it holds, and the expected one.
    """

    endpoint: str
    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Every live member confirmed the last base, or the time to linger is over."""


News = Notice | Waiting | Strike | TakenIn
"""What the owner may be told of; nothing depends on it. Words are made outside."""
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
    | KeepCharged
    | Vouched
    | LedgerBehind
    | News
    | Fatal
    | TrackerKnown
    | Named
    | WrongTracker
    | Closed
)
