"""`python -m node.rejoin`: who decides on the next model, and who is gone for good."""
