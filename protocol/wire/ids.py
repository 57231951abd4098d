"""Identifiers on the wire: 32-byte node keys and session ids."""

from __future__ import annotations

from typing import Annotated

from protocol.wire.fields import Octets

Key = Annotated[bytes, Octets(32, 32)]
Sid = Annotated[bytes, Octets(32, 32)]
NO_SID: Sid = bytes(32)
NOBODY: Key = bytes(32)
"""In place of a key: the owner is the whole group."""
RESIGNED: Sid = b"\xff" * 32
"""In place of a session id: the vote of a node that resigned on its anchor, which counts for nothing."""
NO_ELECTORS = bytes(32)
"""In place of a digest: the electors of this base are not known yet."""
LINEAGE = b"lineage"
"""In place of a sum's owner: the request is for a link, not for a piece of a vector."""
