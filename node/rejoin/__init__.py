"""`python -m node.rejoin`: the electors of the next model, and those that are gone for good."""
