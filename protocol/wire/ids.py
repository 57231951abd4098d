"""What things are called on the wire: 32-byte node keys and session ids."""

from __future__ import annotations

Key = bytes
Sid = bytes
NO_SID: Sid = bytes(32)
NOBODY: Key = bytes(32)
"""In a key's place: what belongs to a whole group."""
RESIGNED: Sid = b"\xff" * 32
"""In the place of a session: the vote of who votes no more on its anchor, which is for nobody."""
NO_ELECTORS = bytes(32)
"""In the place of a digest: the electors of this base are not known yet."""
LINEAGE = b"lineage"
"""In the place of a sum's owner: a request for a link, and not for a piece of a vector."""
