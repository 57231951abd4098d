"""A node from its options to its exit status: what it checks before it starts, its parts, its signals."""
