"""Audits of mechanisms: which claims they refute, and how fast."""

CLAIMS, FAULTS, FILES, SHARED_NOISE = PARTS = ("claims", "faults", "files", "shared")
