"""`python -m node.key`: a node's key; makes one if there is none."""
