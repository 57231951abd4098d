"""Invitations: how a person joins a swarm by a short code, and how all members learn the same list."""
