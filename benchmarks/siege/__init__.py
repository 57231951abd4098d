"""A swarm while strangers besiege one of its nodes."""
