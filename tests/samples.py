"""One signed or tagged sample of every message."""

from dataclasses import replace

from protocol.wire import signing
from protocol.wire.ids import RESIGNED
from protocol.wire.limits import MAX_CHARGES
from protocol.wire.masked_messages import (
    Ack,
    AckVote,
    Check,
    CheckVote,
    Deal,
    Dealt,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    JoinHead,
    JoinVote,
    Lacking,
    Masked,
    MaskedHead,
    Proof,
    ProposalHead,
    Propose,
    Release,
    ReleaseHead,
    ResultCertificate,
    Total,
    TotalHead,
    TotalPiece,
    ViewChange,
    ViewVote,
)
from protocol.wire.messages import (
    Accepted,
    BasePiece,
    Certificate,
    CertificateRequest,
    ChargeCount,
    Charged,
    Electors,
    Equivocation,
    Goodbye,
    Head,
    Heard,
    Hello,
    LeftOut,
    LineagePiece,
    Link,
    Message,
    Parting,
    PieceRequest,
    Redirect,
    Refused,
    Reminder,
    Share,
    Stalled,
    Sum,
    Vouch,
)
from tests.parts import announce, base, group, group_of, members, ready, roster_of

ONE, TWO, THREE = members(3)
SID, NONCE, DIGEST, RUN = b"s" * 32, b"n" * 16, b"d" * 32, b"r" * 32
SUM = signing.sign(Sum(SID, ONE.public, bytes(32), (DIGEST, DIGEST), b"", 0, b"\0\1\2\3"), ONE)

CHARGED = signing.sign(Charged(ONE.public, "agreement on digits", ChargeCount(MAX_CHARGES, 0)), ONE)

JOIN_HEADS = tuple(signing.sign(JoinHead(SID, key.public, DIGEST, 3), key) for key in (ONE, TWO))
DEAL = Deal(DIGEST, NONCE * 2, RUN)
DEALT = tuple(Dealt(head, DEAL, (DIGEST, RUN)) for head in JOIN_HEADS)
LACKING = signing.sign(Lacking(SID, ONE.public, 0b110), ONE)
JOIN_VOTE = signing.sign(JoinVote(SID, ONE.public, DIGEST), ONE)
MASKED_HEAD = signing.sign(MaskedHead(SID, TWO.public, 4095, DIGEST), TWO)
TOTAL_HEAD = signing.sign(TotalHead(SID, ONE.public, 2**64 - 1, 4095, RUN, DIGEST), ONE)
CHECK_VOTE = signing.sign(CheckVote(SID, ONE.public, 0b1011, DIGEST, b"\0\1\2\xff" * 3), ONE)
DISPUTE = signing.sign(Dispute(SID, TWO.public, 0b1011, 4095), TWO)
ACK_VOTE = signing.sign(AckVote(SID, ONE.public, 0b1011, DIGEST), ONE)
RELEASE_HEAD = signing.sign(ReleaseHead(SID, ONE.public, 0b1011, DIGEST, RUN, NONCE * 2), ONE)
UNLOCKED = signing.sign(ViewVote(SID, TWO.public, 1, b"", ()), TWO)
LOCKED = signing.sign(ViewVote(SID, ONE.public, 64, b"\xff\x03", (ACK_VOTE,)), ONE)
PROOF = Proof((DIGEST, RUN), (CHECK_VOTE,))
PROPOSAL = signing.sign(ProposalHead(SID, ONE.public, 1, 0b1011, (0, 1, 3, 63), DIGEST, ()), ONE)
LOCKED_PROPOSAL = signing.sign(ProposalHead(SID, TWO.public, 2, 1, (0,), RUN, (ACK_VOTE,)), TWO)

RESULT = ResultCertificate(SID, 0b1011, (DIGEST,), DEALT, (RUN, DIGEST), (RELEASE_HEAD,))
MASKED_SAMPLES: tuple[Message, ...] = (
    Join(JOIN_HEADS[0], (DEAL,) * 3, (DIGEST, RUN) * 3, TWO.public, b"sealed"),
    Joined(JOIN_VOTE, JOIN_HEADS),
    LACKING,
    JoinCertificate(SID, DIGEST, (bytes(64), b"\xff" * 64)),
    Masked(MASKED_HEAD, b"words"),
    Total(TOTAL_HEAD, (MASKED_HEAD, MASKED_HEAD), b"words and carries"),
    Check(CHECK_VOTE, (TOTAL_HEAD, TOTAL_HEAD)),
    DISPUTE,
    Ack(ACK_VOTE, (DIGEST, RUN)),
    Ack(ACK_VOTE, (DIGEST,), (MASKED_HEAD,)),
    Release(RELEASE_HEAD, (DIGEST, RUN)),
    ViewChange(UNLOCKED, ()),
    ViewChange(LOCKED, (PROOF,)),
    Propose(PROPOSAL, (UNLOCKED, LOCKED), ()),
    Propose(LOCKED_PROPOSAL, (LOCKED,), (PROOF,)),
    TotalPiece(SID, 4095, b"words"),
    RESULT,
)
"""Samples of the masked protocol: with and without optional parts, and with the largest numbers."""

GONE = (b"127.0.0.1:9000", THREE.public)
EXCUSING = group_of(
    (ready(key, TWO.public, electors=RUN, weak=False, gone=GONE) for key in (ONE, TWO)),
    TWO,
    excused=(announce(THREE, following=True, open=(RESIGNED,), base=base(4, 1, anchor=2)),),
    electors=(ONE.public, THREE.public),
)
"""A group with everything that a quorum of electors may need."""
LATER = replace(group(members(3)), on=(base(7, 3),))
"""The group of a run, in a later step."""

SAMPLES: tuple[Message, ...] = (
    Hello(announce(ONE, base=base(3, 9)), NONCE, True, '{"k":1}', (announce(TWO), announce(THREE))),
    Hello(announce(ONE, leaving=True), NONCE, False, "", ()),
    roster_of(ONE, NONCE, (announce(TWO),)),
    Refused(NONCE, "other task or parameters", '{"k":"\u00fc"}'),
    Accepted(NONCE),
    Redirect(NONCE, announce(TWO)),
    ready(ONE, TWO.public),
    group(members(3), attempt=5),
    EXCUSING,
    Hello(announce(ONE, open=(SID, DIGEST)), NONCE, False, ""),
    Electors((b"127.0.0.1:9000", ONE.public), 0),
    Electors((), 64),
    LeftOut(NONCE, (ONE.public, TWO.public)),
    LeftOut(NONCE, ()),
    Stalled(DIGEST, 0),
    Stalled(DIGEST, 7),
    Head(SID, 7),
    Heard(SID, ()),
    Heard(SID, (EXCUSING, group(members(3), attempt=5))),
    CHARGED,
    Reminder(NONCE, ()),
    Reminder(NONCE, (CHARGED,)),
    Equivocation(b"first", b"second"),
    signing.sign(Vouch(DIGEST, "Ward D", THREE.public, ONE.public, bytes(64)), ONE),
    Share(SID, ONE.public, TWO.public, 4095, b"sealed"),
    SUM,
    signing.sign(CertificateRequest(SID, ONE.public), ONE),
    Certificate(SID, (SUM.header, SUM.header)),
    signing.sign(PieceRequest(SID, TWO.public, 3, ONE.public), ONE),
    signing.sign(PieceRequest(DIGEST, b"", 0, ONE.public), ONE),
    BasePiece(DIGEST, 1, b"floats"),
    LineagePiece(DIGEST, 0, 0, ()),
    LineagePiece(DIGEST, 1, 2, (Link(EXCUSING, (RESULT,), ()),)),
    LineagePiece(DIGEST, 1, 2, (Link(LATER, (RESULT,), ()),)),
    LineagePiece(DIGEST, 64, 65, (Link(group(members(3)), (), (Certificate(SID, (SUM.header,)),)),)),
    Hello(announce(ONE, following=True), NONCE, False, "", (announce(TWO, following=True),)),
    *MASKED_SAMPLES,
    signing.sign(Goodbye(ONE.public, NONCE, Parting.DIVERGED), ONE),
)
