"""Peer discovery, and the forming of groups."""
