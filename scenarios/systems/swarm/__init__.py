"""A swarm beside training alone and training on all rows."""
