"""The Python interface to a node and to a local swarm."""
