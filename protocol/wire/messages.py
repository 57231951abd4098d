"""Everything that nodes say to each other, as frozen values. The codec turns them into bytes.

Keys, digests and session ids are 32 bytes, nonces 16. No message has a time that anything depends on: the
clocks of two machines are never compared, but to tell people that they differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocol.wire.ids import NO_ELECTORS, NOBODY
from protocol.wire.ids import NO_SID as NO_SID  # noqa: PLC0414 - they belong to the messages
from protocol.wire.ids import Key as Key  # noqa: PLC0414
from protocol.wire.ids import Sid as Sid  # noqa: PLC0414
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Propose,
    Release,
    ResultCertificate,
    Total,
    TotalPiece,
    ViewChange,
)

_COMPLEMENT = bytes(range(255, -1, -1))


@dataclass(frozen=True, slots=True)
class Base:
    """Which agreed model a node holds, and the session that made it (zeros for the initial model).

    `anchor`: the generation of the last strong base that it descends from, or is
    (protocol.quorum.electorate).
    """

    generation: int
    digest: bytes
    members: int
    sid: Sid
    anchor: int = 0

    @property
    def is_strong(self) -> bool:
        """Whether a quorum of electors made it, so that no other base can take its place."""
        return self.anchor == self.generation

    @property
    def rank(self) -> tuple[int, int, int, bytes]:
        """Higher wins: anchor, generation, group size, then the smaller digest (protocol, Healing)."""
        return self.anchor, self.generation, self.members, self.digest.translate(_COMPLEMENT)


@dataclass(frozen=True, slots=True)
class Announce:
    """Who is where, for which task, with which base. Signed; replaced by a later one.

    Later is what has the higher (`epoch`, `counter`): a node raises its epoch at each start, and its counter
    with each announcement. `instance`: 16 random bytes, new at each start. `following`: it offers nothing,
    and only fetches what the others agree on. `open`: the sessions that its votes on this
    anchor are bound to, or RESIGNED alone, where it votes no more.
    """

    key: Key
    endpoint: str
    task: str
    parameters: bytes
    min_participants: int
    instance: bytes
    epoch: int
    counter: int
    round: int
    base: Base
    leaving: bool
    following: bool
    open: tuple[Sid, ...] = ()
    signature: bytes = b""

    @property
    def swarm(self) -> tuple[str, bytes]:
        """What two nodes must share to aggregate: the task and the parameters hash."""
        return self.task, self.parameters

    @property
    def order(self) -> tuple[int, int]:
        """Of two announcements of one key the later one has the higher order."""
        return self.epoch, self.counter


@dataclass(frozen=True, slots=True)
class Ready:
    """1.1: an announcement, an ephemeral key and the coordinator it is meant for. Good for one GROUP.

    `electors`: the digest of the electors that it counts with. `weak`: it would join a group without a quorum
    of them. `gone`: the electors that its owner, or the time without them, says are gone for good.
    """

    announce: Announce
    ephemeral: bytes
    nonce: bytes
    coordinator: Key
    electors: bytes = NO_ELECTORS
    weak: bool = False
    gone: tuple[bytes, ...] = ()
    signature: bytes = b""

    @property
    def key(self) -> Key:
        """The node key of the member."""
        return self.announce.key


@dataclass(frozen=True, slots=True)
class Hello:
    """An introduction, on a link of its own sender; `known` are others' announcements.

    `nonce` is echoed by an answer and by a refusal. `age_ms`: for how long the sender has been up.
    `clock_ms`: its clock, Unix milliseconds, for people alone: a clock that is wrong is told of, no more.
    """

    announce: Announce
    nonce: bytes
    wants_reply: bool
    parameters: str
    known: tuple[Announce, ...] = ()
    age_ms: int = 0
    clock_ms: int = 0


@dataclass(frozen=True, slots=True)
class Roster:
    """A tracker's answer to a Hello, signed by it: its key and the peers it knows for the same task.

    `clock_ms`: its clock, Unix milliseconds, for people alone.
    """

    key: Key
    nonce: bytes
    known: tuple[Announce, ...]
    clock_ms: int = 0
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a Hello or READY with this nonce is not accepted."""

    nonce: bytes
    reason: str
    parameters: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The coordinator holds the READY with this nonce."""

    nonce: bytes


@dataclass(frozen=True, slots=True)
class Redirect:
    """The READY with this nonce went to a node that sends its own to `coordinator`."""

    nonce: bytes
    coordinator: Announce


@dataclass(frozen=True, slots=True)
class Group:
    """1.2: the n READYs, in key order, signed by the coordinator that all of them name.

    `excused`: announcements of electors that resigned, where a quorum is needed without them. `electors`: on
    a first base, whom a tracker named once and for all.
    """

    readys: tuple[Ready, ...]
    attempt: int
    coordinator: Key
    excused: tuple[Announce, ...] = ()
    electors: tuple[Key, ...] = ()
    signature: bytes = b""

    @property
    def base(self) -> Base:
        """What its members stand on, all of them (protocol.swarm.meeting.group_seeker.check_group)."""
        return self.readys[0].announce.base


@dataclass(frozen=True, slots=True)
class Electors:
    """Who the electors of its sender's base are, to a coordinator that may not know."""

    members: tuple[bytes, ...]
    least: int


@dataclass(frozen=True, slots=True)
class Share:
    """2.1: one sealed piece of share_ij, from `sender` to `recipient`."""

    sid: Sid
    sender: Key
    recipient: Key
    index: int
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Sum:
    """3.1: piece `index` of p_j under the header that `sender` signed for the whole of it."""

    sid: Sid
    sender: Key
    contributors: bytes
    pieces: tuple[bytes, ...]
    signature: bytes
    index: int = 0
    payload: bytes | memoryview = b""

    @property
    def header(self) -> Sum:
        """The signed part alone, as certificates carry it."""
        return replace(self, index=0, payload=b"")

    @property
    def owner(self) -> Key:
        """Whose it is."""
        return self.sender


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """A member asks for the n signed SUM headers of `sid`.

    `to`: whom it asks. `epoch` and `number`: no two of the sender's requests have the same.
    """

    sid: Sid
    sender: Key
    to: Key = NOBODY
    epoch: int = 0
    number: int = 0
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The n signed SUM headers of one session: proof of its result, with the pieces they name."""

    sid: Sid
    sums: tuple[Sum, ...]


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """`sender` asks for piece `index` of `of`'s partial sum in `sid`, or, with `of` empty, of base `sid`.

    With `of` LINEAGE it asks for a link of the line that base `sid` stands in (protocol.quorum.lineage).

    `to`: whom it asks. `epoch` and `number`: no two of the sender's requests have the same.
    """

    sid: bytes
    of: bytes
    index: int
    sender: Key
    to: Key = NOBODY
    epoch: int = 0
    number: int = 0
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class BasePiece:
    """Piece `index` of the base model with this digest."""

    digest: bytes
    index: int
    payload: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class Link:
    """A session that made a base: its group, and the certificate of its result (one of the two kinds)."""

    group: Group
    result: tuple[ResultCertificate, ...]
    sums: tuple[Certificate, ...]

    @property
    def certificate(self) -> ResultCertificate | Certificate:
        """The one that there is."""
        return self.result[0] if self.result else self.sums[0]


@dataclass(frozen=True, slots=True)
class LineagePiece:
    """Link `index` of the `count` that lead to the base with this digest; no link where there is none."""

    digest: bytes
    index: int
    count: int
    link: tuple[Link, ...]


# -- a federation with a server: every record bears a tag under the run's key --------------------------------


@dataclass(frozen=True, slots=True)
class Enlist:
    """Client node number `node`, started as `instance`, takes work at `endpoint`; said over and over."""

    node: int
    instance: bytes
    endpoint: str
    tag: bytes = b""


@dataclass(frozen=True, slots=True)
class Enlisted:
    """The server counts on this instance."""

    instance: bytes
    tag: bytes = b""


@dataclass(frozen=True, slots=True)
class Order:
    """This instance is to train these clients in `round`, from the model whose pieces follow."""

    instance: bytes
    round: int
    clients: tuple[int, ...]
    tag: bytes = b""


@dataclass(frozen=True, slots=True)
class ModelPiece:
    """Piece `index` of the model that clients start from in `round`."""

    round: int
    index: int
    tag: bytes = b""
    payload: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class UploadPiece:
    """Piece `index` of what `client`, trained by `instance`, sends in `round`."""

    instance: bytes
    round: int
    client: int
    index: int
    tag: bytes = b""
    payload: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class Done:
    """There is no more work: the node may end."""

    instance: bytes
    tag: bytes = b""


Request = CertificateRequest | PieceRequest
"""What is answered from what a node keeps."""

Message = (
    Hello
    | Roster
    | Refused
    | Accepted
    | Redirect
    | Ready
    | Group
    | Electors
    | Share
    | Sum
    | CertificateRequest
    | Certificate
    | PieceRequest
    | BasePiece
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
    | Enlist
    | Enlisted
    | Order
    | ModelPiece
    | UploadPiece
    | Done
)
