"""One signed or tagged sample of every message."""

from protocol import codec
from protocol.messages import (
    Accepted,
    BasePiece,
    Certificate,
    CertificateRequest,
    Done,
    Enlist,
    Enlisted,
    Hello,
    Message,
    ModelPiece,
    Order,
    PieceRequest,
    Redirect,
    Refused,
    Roster,
    Share,
    Sum,
    UploadPiece,
)
from tests.parts import announce, base, group, members, ready

ONE, TWO, THREE = members(3)
SID, NONCE, DIGEST, RUN = b"s" * 32, b"n" * 16, b"d" * 32, b"r" * 32
SUM = codec.sign(Sum(SID, ONE.public, bytes(32), (DIGEST, DIGEST), b"", 0, b"\0\1\2\3"), ONE)

SAMPLES: tuple[Message, ...] = (
    Hello(announce(ONE, base=base(3, 9)), NONCE, True, '{"k":1}', (announce(TWO), announce(THREE))),
    Hello(announce(ONE, leaving=True), NONCE, False, "", ()),
    Roster(ONE.public, NONCE, (announce(TWO),)),
    Refused(NONCE, "other task or parameters", '{"k":"\u00fc"}'),
    Accepted(NONCE),
    Redirect(NONCE, announce(TWO)),
    ready(ONE, TWO.public),
    group(members(3), attempt=5),
    Share(SID, ONE.public, TWO.public, 4095, b"sealed"),
    SUM,
    codec.sign(CertificateRequest(SID, ONE.public), ONE),
    Certificate(SID, (SUM.header, SUM.header)),
    codec.sign(PieceRequest(SID, TWO.public, 3, ONE.public), ONE),
    codec.sign(PieceRequest(DIGEST, b"", 0, ONE.public), ONE),
    BasePiece(DIGEST, 1, b"floats"),
    Hello(announce(ONE, following=True), NONCE, False, "", (announce(TWO, following=True),)),
    codec.tag(Enlist(11, NONCE, "127.0.0.1:9000"), RUN),
    codec.tag(Enlisted(NONCE), RUN),
    codec.tag(Order(NONCE, 7, (3, 15, 4095)), RUN),
    codec.tag(ModelPiece(7, 4095, payload=b"floats"), RUN),
    codec.tag(UploadPiece(NONCE, 7, 15, 2, payload=b"floats"), RUN),
    codec.tag(Done(NONCE), RUN),
)
