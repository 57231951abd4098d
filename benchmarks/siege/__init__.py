"""A swarm while strangers flood one of its nodes with connections."""
