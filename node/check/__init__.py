"""`python -m node.check`: what would fail, said before anything starts."""
