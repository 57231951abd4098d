"""Audits of mechanisms: how much they refute, and how fast."""
