"""Invitations at a node: what both ends keep, the rooms at a relay, and the file of a swarm."""
