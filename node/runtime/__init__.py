"""A node's life: the engine that drives its machine, and what it owns."""
