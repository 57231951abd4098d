"""Mechanisms of a node's offers: `ldp`, `aldp`, `dp-sgd` and `distributed-dp-sgd`."""
