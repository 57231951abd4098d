"""A swarm compared with training alone and with training on all rows."""
