"""Audits: attacks on a mechanism, which bound from below what it reveals."""
