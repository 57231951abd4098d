"""Members in one process check a signature only if it was not made there: each message goes to many."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protocol.crypto import node_key
from protocol.crypto.node_key import NodeKey


@contextmanager
def known_if_made_here() -> Iterator[None]:
    """Accepts at once, in the context, a signature that a NodeKey made in it; checks all others."""
    sign, verify = NodeKey.sign, node_key.verify
    made = set[tuple[bytes, bytes, bytes, bytes]]()

    def noting(key: NodeKey, label: bytes, body: bytes) -> bytes:
        signature = sign(key, label, body)
        made.add((key.public, label, body, signature))
        return signature

    def checking(public: bytes, label: bytes, body: bytes, signature: bytes) -> None:
        if (public, label, body, signature) not in made:
            verify(public, label, body, signature)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeKey, "sign", noting)
        patch.setattr(node_key, "verify", checking)
        yield
