"""All messages between nodes, as frozen values. The codec turns them into bytes.

Keys, digests and session ids are 32 bytes, nonces 16. No decision depends on a time in a message: nodes
compare the clocks of two machines only to tell people that they differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Annotated

from protocol.wire.fields import (
    Count,
    Digest,
    Endpoint,
    Index,
    Members,
    Most,
    Name,
    Nonce,
    Octets,
    Passed,
    Round,
    Signature,
    Signed,
    Text,
    Whole,
)
from protocol.wire.ids import NO_ELECTORS, NOBODY
from protocol.wire.ids import NO_SID as NO_SID  # noqa: PLC0414 - they belong to the messages
from protocol.wire.ids import Key as Key  # noqa: PLC0414
from protocol.wire.ids import Sid as Sid  # noqa: PLC0414
from protocol.wire.limits import (
    MAX_BUDGET_CHARS,
    MAX_CHARGES,
    MAX_ELECTOR_BYTES,
    MAX_EVIDENCE_BYTES,
    MAX_KNOWN,
    MAX_MEMBERS,
    MAX_OPEN,
    MAX_PARAMETERS_CHARS,
    MAX_PIECES,
    MAX_RIVALS,
)
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    Lacking,
    Masked,
    Propose,
    Release,
    ResultCertificate,
    Total,
    TotalPiece,
    ViewChange,
)

_COMPLEMENT = bytes(range(255, -1, -1))
Rank = tuple[int, int, int, bytes]

Parameters = Annotated[str, Text(MAX_PARAMETERS_CHARS)]
Electing = Annotated[tuple[Annotated[bytes, Octets(1, MAX_ELECTOR_BYTES)], ...], Most(MAX_MEMBERS)]
Charges = Annotated[int, Whole(0, MAX_CHARGES)]
Evidence = Annotated[bytes, Octets(1, MAX_EVIDENCE_BYTES)]


@dataclass(frozen=True, slots=True)
class Base:
    """The agreed model that a node holds, and the session that made it (zeros for the initial model).

    `anchor`: the generation of the last strong base among it and its ancestors (protocol.quorum.electorate).
    """

    generation: Round
    digest: Digest
    members: Members
    sid: Sid
    anchor: Round = 0

    @property
    def is_strong(self) -> bool:
        """Whether a quorum of electors made it, so that no other base can replace it."""
        return self.anchor == self.generation

    @property
    def rank(self) -> Rank:
        """The base of higher rank wins: anchor, generation, group size, then smaller digest (Healing)."""
        return self.anchor, self.generation, self.members, self.digest.translate(_COMPLEMENT)


@dataclass(frozen=True, slots=True)
class Announce(Signed):
    """A node's key, endpoint, task, round and base. Signed; a later announcement replaces it.

    The later one has the higher (`epoch`, `counter`): a node raises its epoch at each start, and its counter
    with each announcement. `instance`: 16 random bytes, new at each start. `following`: the node offers
    nothing, and only fetches what the others agree on. `open`: the sessions that its votes on this anchor are
    bound to, or only RESIGNED, if it no longer votes. `run`: the run of steps that the node is in, by the sid
    of its first step, if it is in one.
    """

    label = b"announce"

    key: Key
    endpoint: Endpoint
    task: Annotated[str, Text(200)]
    parameters: Digest
    min_participants: Annotated[int, Whole(3, MAX_MEMBERS)]
    instance: Nonce
    epoch: Count
    counter: Count
    round: Round
    base: Annotated[Base, Passed.ON]
    leaving: bool
    following: bool
    open: Annotated[tuple[Sid, ...], Most(MAX_OPEN)] = ()
    run: Sid = NO_SID
    signature: Signature = b""

    @property
    def swarm(self) -> tuple[str, bytes]:
        """(task, parameters hash), which nodes must share to aggregate."""
        return self.task, self.parameters

    @property
    def order(self) -> tuple[int, int]:
        """(epoch, counter): of two announcements of one key, the later one has the higher order."""
        return self.epoch, self.counter


@dataclass(frozen=True, slots=True)
class Ready(Signed):
    """1.1: an announcement, an ephemeral key and the coordinator it is meant for. Valid for one GROUP.

    `electors`: the digest of the electors that the node counts with. `weak`: it would join a group without a
    quorum of them. `gone`: the electors that it counts as gone for good, by its owner's word or by the time.
    """

    label = b"ready"

    announce: Announce
    ephemeral: Annotated[bytes, Octets(32, 32)]
    nonce: Nonce
    coordinator: Key
    electors: Digest = NO_ELECTORS
    weak: bool = False
    gone: Electing = ()
    signature: Signature = b""

    @property
    def key(self) -> Key:
        """The sender's node key."""
        return self.announce.key


@dataclass(frozen=True, slots=True)
class Hello:
    """An introduction, on a link of its own sender; `known` are others' announcements.

    An answer and a refusal echo `nonce`. `age_ms`: the time since the sender's start. `clock_ms`: its clock,
    Unix milliseconds; nodes only use it to notify people of a wrong clock.
    """

    announce: Announce
    nonce: Nonce
    wants_reply: bool
    parameters: Parameters
    known: Annotated[tuple[Announce, ...], Most(MAX_KNOWN)] = ()
    age_ms: Count = 0
    clock_ms: Count = 0


class Parting(IntEnum):
    """Why a node leaves, for the owners of the others; nothing depends on it."""

    ENDED = 1
    """Its last round is over."""
    STOPPED = 2
    """Its owner, or the program that it runs in, ended it."""
    DIVERGED = 3
    """Its loss or its update was not finite."""
    FAILED = 4
    """It cannot go on, for another reason."""


@dataclass(frozen=True, slots=True)
class Goodbye(Signed):
    """Why the sender leaves, on a link of its own, just before its leaving Hello. Signed.

    `instance`: that of the start that ends. `why`: a Parting, or a number of a later version.
    """

    label = b"goodbye"

    key: Key
    instance: Nonce
    why: Annotated[int, Whole(0, 255)]
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class ChargeCount:
    """How many uses of a node's rows its ledger has charged: of a sample of them, and others (`plain`)."""

    sampled: Charges = 0
    plain: Charges = 0

    def exceeds(self, other: ChargeCount) -> bool:
        """Whether a ledger with `other` lacks a charge that is counted here."""
        return self.sampled > other.sampled or self.plain > other.plain


@dataclass(frozen=True, slots=True)
class Charged(Signed):
    """What `key` has charged for `budget`, by its ledger on disk, for the members to keep. Signed."""

    label = b"charged"

    key: Key
    budget: Annotated[str, Text(MAX_BUDGET_CHARS)]
    count: ChargeCount
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Reminder:
    """The newest CHARGED of the recipient, started as `instance`, that the sender keeps; none if none."""

    instance: Nonce
    charged: Annotated[tuple[Charged, ...], Most(1)]


@dataclass(frozen=True, slots=True)
class Roster(Signed):
    """A tracker's signed answer to a Hello: its key and the peers it knows for the same task.

    `clock_ms`: its clock, Unix milliseconds, only to notify people of a wrong clock.
    """

    label = b"roster"

    key: Key
    nonce: Nonce
    known: Annotated[tuple[Announce, ...], Most(MAX_KNOWN)]
    clock_ms: Count = 0
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal of the Hello or READY with this nonce, and its reason."""

    nonce: Nonce
    reason: Annotated[str, Text(300)]
    parameters: Parameters = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The coordinator holds the READY with this nonce."""

    nonce: Nonce


@dataclass(frozen=True, slots=True)
class Redirect:
    """The recipient of the READY with this nonce sends its own READY to `coordinator`."""

    nonce: Nonce
    coordinator: Announce


@dataclass(frozen=True, slots=True)
class Group(Signed):
    """1.2: the n READYs, in key order, signed by the coordinator that all of them name.

    `excused`: announcements of electors that resigned, if the group needs them for a quorum. `electors`: on a
    first base, those that a tracker named for good.

    The group of a run of steps sums once for each step, each on the base that the step before it made. `on`
    names that base in a later step: a GROUP comes without it, and each member adds it for itself.
    """

    label = b"group"

    readys: Annotated[tuple[Ready, ...], Most(MAX_MEMBERS)]
    attempt: Round
    coordinator: Key
    excused: Annotated[tuple[Announce, ...], Most(MAX_MEMBERS)] = ()
    electors: Annotated[tuple[Key, ...], Most(MAX_MEMBERS)] = ()
    signature: Signature = b""
    on: Annotated[tuple[Base, ...], Most(1)] = ()

    @property
    def base(self) -> Base:
        """The base that its sum builds on."""
        return self.on[0] if self.on else self.first_base

    @property
    def first_base(self) -> Base:
        """The base of all its members' READYs (protocol.swarm.meeting.group_seeker.check_group)."""
        return self.readys[0].announce.base

    @property
    def step(self) -> int:
        """Which step of its run this is; 0: the first, and the only one outside of runs."""
        return self.base.generation - self.first_base.generation

    def later(self, base: Base) -> Group:
        """This group in a later step, which builds on `base`."""
        return replace(self, on=(base,))

    @property
    def run(self) -> Group:
        """This group in the first step."""
        return replace(self, on=()) if self.on else self


@dataclass(frozen=True, slots=True)
class Electors:
    """The electors of the sender's base, for a coordinator that may not know them.

    None: those that the tracker names. `liars`: how many of them may lie; -1: as many as is usual among so
    many (protocol.quorum.electorate).
    """

    members: Electing
    least: Members
    liars: Annotated[int, Whole(-1, MAX_MEMBERS)] = -1


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Whom the sender of the READY with this nonce would rather not be grouped with, for its coordinator.

    From a coordinator to the sender of that READY: who had it left out.
    """

    nonce: Nonce
    keys: Annotated[tuple[Key, ...], Most(MAX_MEMBERS)]


@dataclass(frozen=True, slots=True)
class Stalled:
    """On the base with this digest, the sender has waited too long at the coordinators of `turns` turns."""

    base: Digest
    turns: Round


@dataclass(frozen=True, slots=True)
class Head:
    """The sender may join the session `sid`, whose group builds on a base of this anchor."""

    sid: Sid
    anchor: Round


@dataclass(frozen=True, slots=True)
class Heard:
    """For the sender of that `Head`: the groups on its anchor, or a later one, that this node counts in.

    It is in them, has voted in them, or holds their result.
    """

    sid: Sid
    groups: Annotated[tuple[Group, ...], Most(MAX_RIVALS)]


@dataclass(frozen=True, slots=True)
class Share:
    """2.1: one sealed piece of share_ij, from `sender` to `recipient`."""

    sid: Sid
    sender: Key
    recipient: Key
    index: Index
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Sum(Signed):
    """3.1: piece `index` of p_j, with the header that `sender` signed for the whole sum."""

    label = b"sum"

    sid: Sid
    sender: Key
    contributors: Digest
    pieces: Annotated[tuple[Digest, ...], Most(MAX_PIECES)]
    signature: Signature
    index: Index = 0
    payload: bytes | memoryview = b""

    @property
    def header(self) -> Sum:
        """The signed part without a piece, as certificates carry it."""
        return replace(self, index=0, payload=b"")

    @property
    def owner(self) -> Key:
        """The member whose sum it is."""
        return self.sender


@dataclass(frozen=True, slots=True)
class CertificateRequest(Signed):
    """A member asks for the n signed SUM headers of `sid`.

    `to`: the node that it asks. `epoch` and `number`: unique among the sender's requests.
    """

    label = b"certificate-request"

    sid: Sid
    sender: Key
    to: Key = NOBODY
    epoch: Count = 0
    number: Count = 0
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The n signed SUM headers of one session; with the pieces they name, they prove its result."""

    sid: Sid
    sums: Annotated[tuple[Sum, ...], Most(MAX_MEMBERS)]


@dataclass(frozen=True, slots=True)
class PieceRequest(Signed):
    """`sender` asks for piece `index` of `of`'s partial sum in `sid`, or, with `of` empty, of base `sid`.

    With `of` LINEAGE it asks for a link of the line of base `sid` (protocol.quorum.lineage).

    `to`: the node that it asks. `epoch` and `number`: unique among the sender's requests.
    """

    label = b"piece-request"

    sid: Digest
    of: Annotated[bytes, Octets(0, 32)]
    index: Index
    sender: Key
    to: Key = NOBODY
    epoch: Count = 0
    number: Count = 0
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class BasePiece:
    """Piece `index` of the base model with this digest."""

    digest: Digest
    index: Index
    payload: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class Link:
    """A session that made a base: its group, and the certificate of its result (one of the two kinds)."""

    group: Group
    result: Annotated[tuple[ResultCertificate, ...], Most(1)]
    sums: Annotated[tuple[Certificate, ...], Most(1)]

    @property
    def certificate(self) -> ResultCertificate | Certificate:
        """The certificate of the link's session."""
        return self.result[0] if self.result else self.sums[0]


@dataclass(frozen=True, slots=True)
class LineagePiece:
    """Link `index` of the `count` that lead to the base with this digest; empty if there is none."""

    digest: Digest
    index: Index
    count: Index
    link: Annotated[tuple[Link, ...], Most(1)]


@dataclass(frozen=True, slots=True)
class Vouch(Signed):
    """The word of `member`, one of the invited swarm `swarm`, for a later member: its name and its key.

    `admission`: the member's signature for relays, which learn no names (protocol.relay.admission.Pass).
    """

    label = b"vouch"

    swarm: Digest
    name: Name
    key: Key
    member: Key
    admission: Signature
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Equivocation:
    """Two signed records that contradict each other, as `signing.evidence` writes them."""

    first: Evidence
    second: Evidence


Request = CertificateRequest | PieceRequest
"""The requests that a node answers from its store."""

Message = (
    Hello
    | Roster
    | Refused
    | Accepted
    | Redirect
    | Ready
    | Group
    | Share
    | Sum
    | CertificateRequest
    | Certificate
    | PieceRequest
    | BasePiece
    | Electors
    | LineagePiece
    | Join
    | Joined
    | JoinCertificate
    | Masked
    | Total
    | Check
    | Dispute
    | Ack
    | Release
    | ViewChange
    | Propose
    | TotalPiece
    | ResultCertificate
    | Goodbye
    | LeftOut
    | Lacking
    | Stalled
    | Head
    | Heard
    | Charged
    | Reminder
    | Equivocation
    | Vouch
)
"""All messages, in the order of their numbers on the wire (codec.KINDS): new ones go to the end."""
