"""A signature is one key's, over one body, under one label."""

import pytest

from protocol import codec
from protocol.errors import RemoteProtocolError
from protocol.identity import NodeKey, verify
from protocol.messages import CertificateRequest, PieceRequest
from tests.parts import members

KEY, OTHER = members(2)


def test_a_signature_verifies_under_its_key_label_and_body():
    verify(KEY.public, b"ready", b"body", KEY.sign(b"ready", b"body"))


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
    request = codec.sign(CertificateRequest(bytes(32), KEY.public), KEY)
    swapped = PieceRequest(bytes(32), b"", 0, KEY.public, request.signature)

    with pytest.raises(RemoteProtocolError):
        codec.verify(swapped, KEY.public)


def test_a_seed_has_32_bytes():
    with pytest.raises(ValueError, match="32"):
        NodeKey(bytes(31))


def test_a_key_is_printed_without_its_secret():
    seed = bytes(range(32))

    assert repr(NodeKey(seed)) == f"NodeKey(public={NodeKey(seed).public.hex()[:8]}...)"
