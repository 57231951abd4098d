"""What bounds a message: checked before anything of it is built, and the same for every node."""

from __future__ import annotations

from protocol.crypto.sealing import TAG_BYTES
from protocol.vectors.pieces import PIECE_BYTES, PIECE_WORDS

VERSION = 5
"""Of the wire: nodes of different ones do not talk."""

# -- frames --------------------------------------------------------------------------------------------
MAX_HEADER_BYTES = 256 * 1024
"""All of a frame but its payload and the four bytes that say how long the header is."""
MAX_CARRY_BYTES = PIECE_WORDS
"""The carries that travel behind the words of a masked piece."""
MAX_PAYLOAD_BYTES = PIECE_BYTES + max(TAG_BYTES, MAX_CARRY_BYTES)
MAX_FRAME_BYTES = 4 + MAX_HEADER_BYTES + MAX_PAYLOAD_BYTES

# -- what messages list --------------------------------------------------------------------------------
MAX_MEMBERS = 64
"""Of a session."""
MAX_KNOWN = 256
"""Announcements in a Roster."""
MAX_OPEN = 8
"""Open votes of one node."""
MAX_PIECES = 4096
"""Of a vector."""
MAX_ORDERED = 4096
"""Clients in an Order of a server."""

# -- their fields --------------------------------------------------------------------------------------
CHECKS = 3
"""Random vectors that a masked sum is checked with (protocol.aggregation.masked.linear_check)."""
MAX_PRODUCT_BYTES = 4 * CHECKS * MAX_PIECES
MAX_BITMAP_BYTES = MAX_MEMBERS * MAX_PIECES // 8
"""A bit for each member and chunk."""
MAX_PARAMETERS_CHARS = 16 * 1024
"""The canonical text that all members of a swarm share."""
MAX_ELECTOR_BYTES = 300
"""A key, or an endpoint."""
