"""Mechanisms with a server that sees single updates, as in the replayed systems."""
