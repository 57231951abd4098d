"""`python -m node.check`: reports, before a node starts, what would fail."""
