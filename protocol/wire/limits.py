"""The limits of messages: the same for every node, checked before a message is built."""

from __future__ import annotations

from protocol.crypto.sealing import TAG_BYTES
from protocol.vectors.pieces import PIECE_BYTES, PIECE_WORDS

VERSION = 8
"""The version of the protocol between nodes: two of different versions open no link."""
FRAMES = 7
"""The version of frames, on links and in a node's folder: version 8 changed a total's payload only."""

# -- frames --------------------------------------------------------------------------------------------
MAX_HEADER_BYTES = 256 * 1024
"""A frame without its payload and the four bytes that give the header's length."""
MAX_CARRY_BYTES = PIECE_WORDS
"""The carries after the words of a masked piece."""
MAX_PAYLOAD_BYTES = PIECE_BYTES + max(TAG_BYTES, MAX_CARRY_BYTES)
MAX_FRAME_BYTES = 4 + MAX_HEADER_BYTES + MAX_PAYLOAD_BYTES

# -- what messages list --------------------------------------------------------------------------------
MAX_MEMBERS = 64
"""Members of a session."""
MAX_RUN = 32
"""Steps in a run: a JOIN holds 2 hashes for each member and step."""
MAX_KNOWN = 256
"""Announcements in a Roster."""
MAX_OPEN = 8
"""Open votes of one node."""
MAX_RIVALS = 4
"""Groups that one node names as rivals of another's."""
MAX_EVIDENCE_BYTES = 120 * 1024
"""A signed record that is shown as evidence: a frame's header holds two."""
MAX_PIECES = 4096
"""Pieces of a vector."""

# -- their fields --------------------------------------------------------------------------------------
CHECKS = 3
"""Random vectors that check a masked sum (protocol.aggregation.masked.linear_check)."""
MAX_PRODUCT_BYTES = 4 * CHECKS * MAX_PIECES
MAX_BITMAP_BYTES = MAX_MEMBERS * MAX_PIECES // 8
"""A bit for each member and chunk."""
MAX_PARAMETERS_CHARS = 16 * 1024
"""The canonical text that all members of a swarm share."""
MAX_BUDGET_CHARS = 300
"""The name of what a key's charges are counted for."""
MAX_CHARGES = 1_000_000
"""Charges of one kind in a count: a ledger that has more counts as one with so many."""
MAX_ELECTOR_BYTES = 300
"""An elector: a key or an endpoint."""
