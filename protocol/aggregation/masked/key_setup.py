"""The start of a run of masked sums: members share their secrets, and all get proof that all hold the shares.

A run has one or more steps, each of which is one sum. A member draws the keys of all steps at once, and deals
the shares of all of them in its one JOIN.

These are the phases `joins` and `votes` of `machine`: a member sends a JOIN to each other member; with all n
JOINs it sends its vote, the JOINED, to all; with all n votes it makes their certificate, the JOINCERTIFICATE,
and passes it on once.

If one member withholds its JOIN from another, that one cannot vote, and all others miss its vote. So it says
whose JOIN it lacks, by a LACKING to all: then they do not hold its silence against it.

Nothing here depends on the offer. A member masks and sends its vector only with the certificate. As each
member passes it on, a member that dies while it sends its votes cannot leave some with all votes and others
without (protocol, Part II, D.4: without this echo, some members began and others could not follow).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from protocol.actions import Due, Evidence, Withheld
from protocol.aggregation.equivocation import caught
from protocol.aggregation.lacking import check_lacking, complaint, lacked, withheld
from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.mask_keys import Kind
from protocol.aggregation.masked.step_keys import StepKeys, deals_root, dealt_in
from protocol.aggregation.masked.thresholds import Tolerance
from protocol.aggregation.participant import Participant
from protocol.crypto import shamir
from protocol.crypto.sealing import derive
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.ids import Key
from protocol.wire.masked_messages import (
    Deal,
    Join,
    JoinCertificate,
    Joined,
    JoinHead,
    JoinVote,
    Lacking,
    SetupMessage,
)

_SHARES_BYTES = 2 * shamir.BYTES
Many = TypeVar("Many", bytes, tuple[bytes, ...])


def joins_digest(heads: tuple[JoinHead, ...]) -> bytes:
    """SHA-256 over the n heads in key order, as votes and releases name them."""
    digest = hashlib.sha256(b"murmuration/1/joins")
    for head in heads:
        digest.update(hashlib.sha256(signing.canonical(head) + head.signature).digest())
    return digest.digest()


@dataclass(frozen=True)
class _Drawn:
    """This member's two secrets of one step, and the n shares of each as bytes."""

    self_secret: int
    pair_secret: int
    self_shares: tuple[bytes, ...]
    pair_shares: tuple[bytes, ...]

    @classmethod
    def of(cls, rand: bytes, tolerance: Tolerance) -> Self:
        """Secrets and shares from 32 secret bytes, used for one step alone."""
        self_secret = mask_keys.secret_from(derive(rand, b"self-mask"))
        pair_secret = mask_keys.secret_from(derive(rand, b"mask-key"))
        needed, members = tolerance.threshold, tolerance.members
        self_shares = shamir.split(self_secret, needed, members, derive(rand, b"self-shares"))
        pair_shares = shamir.split(pair_secret, needed, members, derive(rand, b"pair-shares"))
        return cls(
            self_secret,
            pair_secret,
            tuple(shamir.to_bytes(share) for share in self_shares),
            tuple(shamir.to_bytes(share) for share in pair_shares),
        )

    @cached_property
    def pair_key(self) -> X25519PrivateKey:
        """The mask key: the X25519 key of `pair_secret`."""
        return mask_keys.private_key(self.pair_secret)

    def of_member(self, number: int) -> tuple[bytes, bytes]:
        """The two shares of one member."""
        return self.self_shares[number], self.pair_shares[number]


class KeySetup:
    """One member's side, for a run of `steps`. `rand` is 32 secret bytes, used for this run alone."""

    def __init__(self, participant: Participant, tolerance: Tolerance, rand: bytes, steps: int = 1) -> None:
        self._participant = participant
        self._steps = steps
        places = (step.to_bytes(4, "big") for step in range(steps))
        self._drawn = tuple(_Drawn.of(derive(rand, b"step", place), tolerance) for place in places)
        me, number = participant.me, participant.number
        self._hashes = {me: tuple(digest for drawn in self._drawn for digest in self._digests(drawn))}
        self._deals = {me: tuple(self._own_deal(step) for step in range(steps))}
        head = JoinHead(sid=participant.sid, sender=me, deals=deals_root(self._deals[me]), steps=steps)
        self.heads: dict[Key, JoinHead] = {me: signing.sign(head, participant.key)}
        self._shares = {me: tuple(drawn.of_member(number) for drawn in self._drawn)}
        self._pair_seeds: dict[Key, tuple[bytes, ...]] = {}
        self._joined: set[Key] = set()
        """The members whose JOINED is here."""
        self._uncompared: list[Joined] = []
        """Those that are not compared with this member's heads yet."""
        self._votes: dict[Key, JoinVote] = {}
        self._complaints: dict[Key, Lacking] = {}
        """What each member, this one too, has said of the JOINs that it lacks."""
        self.certificate: JoinCertificate | None = None

    def _digests(self, drawn: _Drawn) -> Iterator[bytes]:
        me, sid = self._participant.me, self._participant.sid
        for kind, shares in ((Kind.SELF, drawn.self_shares), (Kind.PAIR, drawn.pair_shares)):
            for number, share in enumerate(shares):
                yield mask_keys.share_digest(share, sid, me, kind, number)

    def _of_step(self, dealer: Key, step: int) -> tuple[bytes, ...]:
        """The 2 n hashes of a dealer's shares for one step."""
        return _part(self._hashes[dealer], step, self._hashes_a_step)

    @property
    def _hashes_a_step(self) -> int:
        return 2 * len(self._participant.members)

    def _own_deal(self, step: int) -> Deal:
        participant, drawn = self._participant, self._drawn[step]
        return Deal(
            mask_key=mask_keys.public_key(drawn.pair_secret),
            commitment=mask_keys.commitment(drawn.self_secret, participant.sid, participant.me),
            shares=mask_keys.shares_digest(self._of_step(participant.me, step)),
        )

    def join(self, recipient: Key) -> Join:
        """The JOIN for another member: this member's commitments and, sealed, the recipient's shares."""
        participant = self._participant
        me, number = participant.me, participant.numbers[recipient]
        head = self.heads[me]
        plain = b"".join(share for drawn in self._drawn for share in drawn.of_member(number))
        sealed = participant.channel(me, recipient).seal(0, _header(head, recipient), plain)
        return Join(head, self._deals[me], self._hashes[me], recipient, sealed)

    def keys(self, step: int) -> StepKeys:
        """This member's keys for a step; available once no JOIN is missing."""
        members, drawn = self._participant.members, self._drawn[step]
        return StepKeys(
            sid=self._participant.sid,
            self_secret=drawn.self_secret,
            pair_seeds={key: seeds[step] for key, seeds in self._pair_seeds.items()},
            shares={key: self._shares[key][step] for key in members},
            hashes={key: self._of_step(key, step) for key in members},
            dealt=tuple(dealt_in(step, self.heads[key], self._deals[key]) for key in members),
            joins=self.digest,
        )

    # -- messages ----------------------------------------------------------------------------------

    def take(self, message: SetupMessage) -> tuple[Joined | None, Evidence | None]:
        """Process a message. Returns this member's vote, if it is due now, and evidence of a contradiction.

        Raises RemoteProtocolError if the message is invalid.
        """
        evidence = None
        match message:
            case Join():
                evidence = self._take_join(message)
            case Joined():
                self._take_joined(message)
            case Lacking():
                check_lacking(message, self._participant)
                self._complaints[message.sender] = message
            case _:
                self._take_certificate(message)
        vote = self._vote() if not self.voted and not self.lacks else None
        evidence = evidence or (self._conflict() if self.voted else None)
        if self.certificate is None and evidence is None and self.voted:
            self._certify()
        return vote, evidence

    # -- joins -------------------------------------------------------------------------------------

    def _take_join(self, join: Join) -> Evidence | None:
        """Process a JOIN; evidence if its sender sent two. Raises RemoteProtocolError if it is invalid."""
        sender = join.head.sender
        signing.verify(join.head, sender)
        known = self.heads.get(sender)
        if known is not None:
            if known == join.head:
                raise RemoteProtocolError("a JOIN that is here already")
            return caught(known, join.head)
        self._check_deals(join)
        shares, seeds = self._opened(join), self._seeds(sender, join.deals)
        self._shares[sender], self._pair_seeds[sender] = shares, seeds
        self.heads[sender], self._deals[sender] = join.head, join.deals
        self._hashes[sender] = join.hashes
        return None

    def _check_deals(self, join: Join) -> None:
        """Check that the JOIN holds what its head names, for all steps of the run."""
        each, steps = self._hashes_a_step, self._steps
        if join.recipient != self._participant.me or join.head.steps != steps:
            raise RemoteProtocolError("a JOIN for another member, or for another number of steps")
        if len(join.deals) != steps or len(join.hashes) != each * steps:
            raise RemoteProtocolError("a JOIN with a wrong number of deals or hashes")
        if deals_root(join.deals) != join.head.deals:
            raise RemoteProtocolError("a JOIN whose deals are not what its head names")
        for step, deal in enumerate(join.deals):
            if mask_keys.shares_digest(_part(join.hashes, step, each)) != deal.shares:
                raise RemoteProtocolError("a JOIN whose hashes are not what its deals name")

    def _seeds(self, sender: Key, deals: tuple[Deal, ...]) -> tuple[bytes, ...]:
        """The seed of the mask that this member shares with the sender, for each step."""
        participant = self._participant
        return tuple(
            mask_keys.pair_seed(drawn.pair_key, deal.mask_key, participant.sid, participant.me, sender)
            for drawn, deal in zip(self._drawn, deals, strict=True)
        )

    def _opened(self, join: Join) -> tuple[tuple[bytes, bytes], ...]:
        """This member's two shares for each step, checked against the hashes that all members have."""
        participant, head, members = self._participant, join.head, len(self._participant.members)
        channel = participant.channel(head.sender, participant.me)
        plain = channel.open(0, _header(head, participant.me), join.payload)
        if len(plain) != _SHARES_BYTES * self._steps:
            raise RemoteProtocolError(f"a JOIN with {len(plain)} bytes of shares")
        opened: list[tuple[bytes, bytes]] = []
        for step in range(self._steps):
            shares = _part(plain, step, _SHARES_BYTES)
            one, other = shares[: shamir.BYTES], shares[shamir.BYTES :]
            for kind, share, offset in ((Kind.SELF, one, 0), (Kind.PAIR, other, members)):
                shamir.from_bytes(share)
                digest = mask_keys.share_digest(share, participant.sid, head.sender, kind, participant.number)
                if digest != _part(join.hashes, step, self._hashes_a_step)[offset + participant.number]:
                    raise RemoteProtocolError("a JOIN with a share that is not the one it hashed")
            opened.append((one, other))
        return tuple(opened)

    @property
    def missing(self) -> tuple[Key, ...]:
        """The members whose JOIN is missing, or, with all JOINs, those whose vote is."""
        joins = tuple(key for key in self._participant.others if key not in self.heads)
        return joins or tuple(key for key in self._participant.others if key not in self._votes)

    @property
    def lacks(self) -> tuple[Key, ...]:
        """The members whose JOIN is missing."""
        return tuple(key for key in self._participant.others if key not in self.heads)

    @cached_property
    def in_order(self) -> tuple[JoinHead, ...]:
        """All heads in key order; available once none is missing."""
        return tuple(self.heads[key] for key in self._participant.members)

    @cached_property
    def digest(self) -> bytes:
        """The digest of all heads; available once none is missing."""
        return joins_digest(self.in_order)

    # -- who owes what -----------------------------------------------------------------------------

    def lacking(self, keys: Iterable[Key]) -> Lacking:
        """This member's statement that it lacks the JOINs of `keys`."""
        mine = complaint(self._participant, keys)
        self._complaints[self._participant.me] = mine
        return mine

    def has_all(self, key: Key) -> bool:
        """Whether a member holds all JOINs, as its vote says."""
        return key in self._votes

    @property
    def has_complained(self) -> bool:
        """Whether this member has said whose JOINs it lacks."""
        return self._participant.me in self._complaints

    @property
    def parted(self) -> tuple[tuple[Key, Key], ...]:
        """The pairs that lack each other's JOINs, as both have said: this session cannot begin any more."""
        lacks = lacked(self._complaints, self._participant)
        pairs = ((one, other) for one in sorted(lacks) for other in lacks[one] if one < other)
        return tuple((one, other) for one, other in pairs if one in lacks.get(other, ()))

    def told_apart(self) -> tuple[tuple[Key, Lacking], ...]:
        """To each of two others that seem not to hear each other, what the other one has said."""
        me, said = self._participant.me, self._complaints
        ways = [way for one, other in self.parted for way in ((one, other), (other, one)) if me not in way]
        return tuple((there, said[here]) for here, there in ways)

    @property
    def withheld_apart(self) -> Withheld:
        """Who is parted, and from whom, before the time is over: nobody else owes anything yet."""
        me, pairs = self._participant.me, self.parted
        mine = tuple(key for pair in pairs if me in pair for key in pair if key != me)
        others = tuple(pair for pair in pairs if me not in pair)
        return Withheld(self._participant.sid, Due.JOIN, mine, others)

    @property
    def withheld(self) -> Withheld | None:
        """Whose JOIN or vote is missing, when the time is over.

        Who says that a third member's JOIN is missing there cannot vote, and is excused.
        """
        silent = tuple(key for key in self._participant.others if key not in self._votes)
        due, keys = (Due.JOIN, self.lacks) if self.lacks else (Due.JOINED, silent)
        return withheld(self._participant, due, keys, self._complaints)

    # -- votes -------------------------------------------------------------------------------------

    def _vote(self) -> Joined:
        """Make this member's vote; called once no JOIN is missing."""
        participant = self._participant
        vote = signing.sign(JoinVote(participant.sid, participant.me, self.digest), participant.key)
        self._votes[participant.me] = vote
        return Joined(vote, self.in_order)

    @property
    def voted(self) -> bool:
        """Whether this member has voted."""
        return self._participant.me in self._votes

    def _take_joined(self, joined: Joined) -> None:
        """Process another member's vote; `take` compares it with this member's afterwards."""
        vote = joined.vote
        signing.verify(vote, vote.sender)
        if vote.sender in self._joined:
            raise RemoteProtocolError("a JOINED that is here already")
        if not (self.voted and joined.heads == self.in_order and vote.joins == self.digest):
            self._check_heads(joined)
        self._joined.add(vote.sender)
        self._uncompared.append(joined)
        self._votes[vote.sender] = vote

    def _check_heads(self, joined: Joined) -> None:
        """Check heads that differ from those here: RemoteProtocolError unless their members signed them."""
        participant = self._participant
        named = tuple((head.sid, head.sender) for head in joined.heads)
        expected = tuple((participant.sid, key) for key in participant.members)
        if named != expected or joins_digest(joined.heads) != joined.vote.joins:
            raise RemoteProtocolError("a JOINED about other members than its session's")
        for head in joined.heads:
            if head != self.heads.get(head.sender):
                signing.verify(head, head.sender)  # if forged, its bearer counts as missing, not its owner

    def _conflict(self) -> Evidence | None:
        """Evidence against a member whose different JOINs to different members the votes show; else None."""
        uncompared, self._uncompared = self._uncompared, []
        for joined in uncompared:
            if joined.heads != self.in_order:
                pairs = zip(self.in_order, joined.heads, strict=True)
                known, other = next((known, other) for known, other in pairs if known != other)
                return caught(known, other)
        return None

    def _certify(self) -> None:
        """Make the certificate, once all n votes are here and name the same JOINs."""
        members, votes = self._participant.members, self._votes
        if len(votes) == len(members) and all(vote.joins == self.digest for vote in votes.values()):
            signatures = tuple(votes[key].signature for key in members)
            self.certificate = JoinCertificate(self._participant.sid, self.digest, signatures)

    def _take_certificate(self, certificate: JoinCertificate) -> None:
        """Process another member's certificate; RemoteProtocolError unless all its votes are valid."""
        members = self._participant.members
        if not self.voted or certificate.joins != self.digest or len(certificate.signatures) != len(members):
            raise RemoteProtocolError("a certificate of other votes than its session's")
        for sender, signature in zip(members, certificate.signatures, strict=True):
            vote = JoinVote(self._participant.sid, sender, certificate.joins, signature)
            if vote != self._votes.get(sender):
                signing.verify(vote, sender)
        self.certificate = certificate


def _part(of_all: Many, step: int, each: int) -> Many:
    """The part of one step of what a JOIN holds for all steps, `each` items a step."""
    return of_all[each * step : each * (step + 1)]


def _header(head: JoinHead, recipient: Key) -> bytes:
    return b"join" + head.sid + head.sender + recipient + head.deals
