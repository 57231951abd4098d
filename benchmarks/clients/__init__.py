"""How fast clients train, in blocks and one after another."""
