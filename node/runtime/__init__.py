"""A node's life: the engine that drives its machine, and the parts that the engine owns."""
