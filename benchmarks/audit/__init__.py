"""Audits of mechanisms: a lower bound on every claimed epsilon, and planted faults that must be refuted."""

CLAIMS, FAULTS, FILES, SHARED_NOISE = PARTS = ("claims", "faults", "files", "shared")
