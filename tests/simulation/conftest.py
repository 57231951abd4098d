"""Simulated members check a signature only if this process did not make it: each message goes to many."""

import pytest

from protocol.crypto import node_key
from protocol.crypto.node_key import NodeKey


@pytest.fixture(autouse=True)
def own_signatures_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepts at once a signature that a NodeKey made in this test; checks all others."""
    sign, verify = NodeKey.sign, node_key.verify
    made = set[tuple[bytes, bytes, bytes, bytes]]()

    def noting(key: NodeKey, label: bytes, body: bytes) -> bytes:
        signature = sign(key, label, body)
        made.add((key.public, label, body, signature))
        return signature

    def checking(public: bytes, label: bytes, body: bytes, signature: bytes) -> None:
        if (public, label, body, signature) not in made:
            verify(public, label, body, signature)

    monkeypatch.setattr(NodeKey, "sign", noting)
    monkeypatch.setattr(node_key, "verify", checking)
