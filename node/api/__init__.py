"""A node or a swarm from Python."""
