"""The start of a masked session: members share their secrets, and all get proof that all hold the shares.

These are the phases `joins` and `votes` of `machine`: a member sends a JOIN to each other member; with all n
JOINs it sends its vote, the JOINED, to all; with all n votes it makes their certificate, the JOINCERTIFICATE,
and passes it on once.

Nothing here depends on the offer. A member masks and sends its vector only with the certificate. As each
member passes it on, a member that dies while it sends its votes cannot leave some with all votes and others
without (protocol, Part II, D.4: without this echo, some members began and others could not follow).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from protocol.actions import Evidence
from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.mask_keys import Kind
from protocol.aggregation.masked.thresholds import Tolerance
from protocol.aggregation.participant import Participant
from protocol.crypto import shamir
from protocol.crypto.sealing import derive
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.ids import Key
from protocol.wire.masked_messages import Join, JoinCertificate, Joined, JoinHead, JoinVote

TWO_JOINS = "two different joins in one session"


def joins_digest(heads: tuple[JoinHead, ...]) -> bytes:
    """SHA-256 over the n heads in key order, as votes and releases name them."""
    digest = hashlib.sha256(b"murmuration/1/joins")
    for head in heads:
        digest.update(hashlib.sha256(signing.canonical(head) + head.signature).digest())
    return digest.digest()


class KeySetup:
    """One member's side. `rand` is 32 secret bytes, used for this session alone."""

    def __init__(self, participant: Participant, tolerance: Tolerance, rand: bytes) -> None:
        self._participant = participant
        self.self_secret = mask_keys.secret_from(derive(rand, b"self-mask"))
        self.pair_secret = mask_keys.secret_from(derive(rand, b"mask-key"))
        needed, members = tolerance.threshold, tolerance.members
        self._self_shares = shamir.split(self.self_secret, needed, members, derive(rand, b"self-shares"))
        self._pair_shares = shamir.split(self.pair_secret, needed, members, derive(rand, b"pair-shares"))
        me = participant.me
        self._own_hashes = (
            *self._hashes(self._self_shares, me, Kind.SELF),
            *self._hashes(self._pair_shares, me, Kind.PAIR),
        )
        self.heads: dict[Key, JoinHead] = {me: self._own_head()}
        self.hashes: dict[Key, tuple[bytes, ...]] = {me: self._own_hashes}
        number = participant.number
        self.shares: dict[Key, tuple[bytes, bytes]] = {
            me: (shamir.to_bytes(self._self_shares[number]), shamir.to_bytes(self._pair_shares[number]))
        }
        self.pair_seeds: dict[Key, bytes] = {}
        self._digest: bytes | None = None
        self._joined: dict[Key, Joined] = {}
        self._votes: dict[Key, JoinVote] = {}
        self.certificate: JoinCertificate | None = None

    def _hashes(self, shares: tuple[int, ...], dealer: Key, kind: Kind) -> Iterator[bytes]:
        for number, share in enumerate(shares):
            yield mask_keys.share_digest(shamir.to_bytes(share), self._participant.sid, dealer, kind, number)

    def _own_head(self) -> JoinHead:
        participant = self._participant
        unsigned = JoinHead(
            sid=participant.sid,
            sender=participant.me,
            mask_key=mask_keys.public_key(self.pair_secret),
            commitment=mask_keys.commitment(self.self_secret, participant.sid, participant.me),
            shares=mask_keys.shares_digest(self._own_hashes),
        )
        return signing.sign(unsigned, participant.key)

    def join(self, recipient: Key) -> Join:
        """The JOIN for another member: this member's commitments and, sealed, the recipient's two shares."""
        participant, number, head = (
            self._participant,
            self._participant.numbers[recipient],
            self.heads[self._participant.me],
        )
        plain = shamir.to_bytes(self._self_shares[number]) + shamir.to_bytes(self._pair_shares[number])
        sealed = participant.channel(participant.me, recipient).seal(0, _header(head, recipient), plain)
        return Join(head, self._own_hashes, recipient, sealed)

    # -- messages ----------------------------------------------------------------------------------

    def take(self, message: Join | Joined | JoinCertificate) -> tuple[Joined | None, Evidence | None]:
        """Process a message. Returns this member's vote, if it is due now, and evidence of a contradiction.

        Raises RemoteProtocolError if the message is invalid.
        """
        evidence = None
        match message:
            case Join():
                evidence = self._take_join(message)
            case Joined():
                self._take_joined(message)
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
            return Evidence(sender, TWO_JOINS, (known, join.head))
        shares, seed = self._opened(join), self._pair_seed(join.head)
        self.shares[sender], self.pair_seeds[sender] = shares, seed
        self.heads[sender] = join.head
        self.hashes[sender] = join.hashes
        return None

    def _pair_seed(self, head: JoinHead) -> bytes:
        participant = self._participant
        return mask_keys.pair_seed(
            self.pair_secret, head.mask_key, participant.sid, participant.me, head.sender
        )

    def _opened(self, join: Join) -> tuple[bytes, bytes]:
        """This member's two shares, checked against the hashes that all members have."""
        participant, head, members = self._participant, join.head, len(self._participant.members)
        if join.recipient != participant.me or len(join.hashes) != 2 * members:
            raise RemoteProtocolError("a JOIN for another member, or with a wrong number of hashes")
        if mask_keys.shares_digest(join.hashes) != head.shares:
            raise RemoteProtocolError("a JOIN whose hashes are not what its head names")
        plain = participant.channel(head.sender, participant.me).open(
            0, _header(head, participant.me), join.payload
        )
        shares = plain[:32], plain[32:]
        for kind, share, place in (
            (Kind.SELF, shares[0], participant.number),
            (Kind.PAIR, shares[1], members + participant.number),
        ):
            shamir.from_bytes(share)
            if (
                mask_keys.share_digest(share, participant.sid, head.sender, kind, participant.number)
                != join.hashes[place]
            ):
                raise RemoteProtocolError("a JOIN with a share that is not the one it hashed")
        return shares

    def dealt(self, dealer: Key, kind: Kind, share: bytes, place: int, number: int) -> bool:
        """Whether this is the share of member `number` whose hash the dealer put at `place` of its hashes."""
        known = self.hashes[dealer][place]
        if int.from_bytes(share, "little") >= shamir.PRIME:
            return False
        return mask_keys.share_digest(share, self._participant.sid, dealer, kind, number) == known

    @property
    def missing(self) -> tuple[Key, ...]:
        """The members whose JOIN is missing, or, with all JOINs, those whose vote is."""
        joins = tuple(key for key in self._participant.others if key not in self.heads)
        return joins or tuple(key for key in self._participant.others if key not in self._votes)

    @property
    def lacks(self) -> tuple[Key, ...]:
        """The members whose JOIN is missing."""
        return tuple(key for key in self._participant.others if key not in self.heads)

    @property
    def in_order(self) -> tuple[JoinHead, ...]:
        """All heads in key order; available once none is missing."""
        return tuple(self.heads[key] for key in self._participant.members)

    @property
    def digest(self) -> bytes:
        """The digest of all heads; available once none is missing."""
        if self._digest is None:
            self._digest = joins_digest(self.in_order)
        return self._digest

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
        self._joined[vote.sender] = joined
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
        for joined in self._joined.values():
            if joined.heads != self.in_order:
                pairs = zip(self.in_order, joined.heads, strict=True)
                known, other = next((known, other) for known, other in pairs if known != other)
                return Evidence(other.sender, TWO_JOINS, (known, other))
        return None

    def _certify(self) -> None:
        """Make the certificate, once all n votes are here and name the same JOINs."""
        votes = tuple(self._votes[key] for key in self._participant.members if key in self._votes)
        if len(votes) == len(self._participant.members) and all(vote.joins == self.digest for vote in votes):
            signatures = tuple(vote.signature for vote in votes)
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


def _header(head: JoinHead, recipient: Key) -> bytes:
    return b"join" + head.sid + head.sender + recipient + head.shares
