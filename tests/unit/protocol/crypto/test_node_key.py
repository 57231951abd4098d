"""A signature belongs to one key, one body and one label."""

import pytest

from protocol.crypto import node_key
from protocol.crypto.node_key import NodeKey, verify
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.messages import CertificateRequest, PieceRequest
from tests.parts import members

KEY, OTHER = members(2)


@pytest.mark.parametrize(
    ("public", "label", "body"),
    [(OTHER.public, b"ready", b"body"), (KEY.public, b"group", b"body"), (KEY.public, b"ready", b"bodz")],
    ids=["wrong key", "wrong label", "wrong body"],
)
def test_a_signature_does_not_verify_for_anything_else(public, label, body):
    with pytest.raises(RemoteProtocolError, match="bad"):
        verify(public, label, body, KEY.sign(b"ready", b"body"))


@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(63)])
def test_what_is_no_signature_is_refused(signature):
    with pytest.raises(RemoteProtocolError):
        verify(KEY.public, b"ready", b"body", signature)


@pytest.mark.parametrize("public", [b"", bytes(31), b"\xff" * 32])
def test_what_is_no_key_is_refused(public):
    with pytest.raises(RemoteProtocolError):
        verify(public, b"ready", b"body", KEY.sign(b"ready", b"body"))


def test_a_label_and_a_body_do_not_run_into_each_other():
    with pytest.raises(RemoteProtocolError):
        verify(KEY.public, b"re", b"adybody", KEY.sign(b"ready", b"body"))


def test_one_kind_of_record_never_passes_for_another():
    request = signing.sign(CertificateRequest(bytes(32), KEY.public), KEY)
    swapped = PieceRequest(bytes(32), b"", 0, KEY.public, request.signature)

    with pytest.raises(RemoteProtocolError):
        signing.verify(swapped, KEY.public)


def test_a_seed_has_32_bytes():
    with pytest.raises(ValueError, match="32"):
        NodeKey(bytes(31))


def test_a_key_is_printed_without_its_secret():
    seed = bytes(range(32))

    assert repr(NodeKey(seed)) == f"NodeKey(public={NodeKey(seed).public.hex()[:8]}...)"


# -- keys that anybody could sign for ------------------------------------------------------------------

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P  # RFC 8032, 5.1


def doubled(x: int, y: int) -> tuple[int, int]:
    """Doubles a point, by the affine law of RFC 8032, 5.1.4."""
    product = D * x * x * y * y
    return 2 * x * y * pow(1 + product, -1, P) % P, (y * y + x * x) * pow(1 - product, -1, P) % P


def point(y: int) -> tuple[int, int]:
    """Returns a point of the curve with this y (RFC 8032, 5.1.3)."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    x = root if root * root % P == square else root * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return x, y


def test_the_refused_keys_are_the_points_whose_order_divides_8():
    """There are eight: x = 0 twice, and each other y with two x."""
    assert len(node_key._SMALL_ORDER) == 5
    for y in node_key._SMALL_ORDER:
        reached = point(y)
        for _ in range(3):
            reached = doubled(*reached)
        assert reached == (0, 1)


@pytest.mark.parametrize("sign", [0, 2**255])
@pytest.mark.parametrize("y", [*sorted(node_key._SMALL_ORDER), P, P + 1])
def test_no_signature_counts_under_a_key_of_small_order(y, sign):
    public = (y + sign).to_bytes(32, "little")
    for body in range(16):  # a fitting body is found with probability 1/8 or more each
        for signature in (bytes(64), b"\x01" + bytes(63)):
            with pytest.raises(RemoteProtocolError, match="bad label signature"):
                node_key.verify(public, b"label", bytes([body]), signature)
