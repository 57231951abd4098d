"""Attacks on what clients send."""
