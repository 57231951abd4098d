"""What a node does to what it has learned before anybody else may see it: pure functions, no I/O."""
