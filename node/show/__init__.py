"""`python -m node.show`: the page of a run, or of several side by side, from their folders."""
