"""Local swarms of real nodes, and what they come to."""
