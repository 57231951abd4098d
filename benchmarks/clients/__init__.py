"""How fast clients train in blocks, beside one after another."""
