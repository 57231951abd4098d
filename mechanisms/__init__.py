"""Protection of what a node has learned, before anybody else may see it: pure functions, no I/O."""
