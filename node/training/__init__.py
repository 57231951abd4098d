"""Training on a node's own rows."""
