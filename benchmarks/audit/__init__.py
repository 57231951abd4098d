"""Audits of mechanisms: which claims they refute, and how fast."""
