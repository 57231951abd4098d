"""Mechanisms with a server's role, as the replayed systems have them."""
