"""Mechanisms that have a server, as in the replayed systems."""
