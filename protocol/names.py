"""What things are called on the wire: 32-byte node keys and session ids."""

from __future__ import annotations

Key = bytes
Sid = bytes
NO_SID: Sid = bytes(32)
NOBODY: Key = bytes(32)
"""In a key's place: what belongs to a whole group."""
