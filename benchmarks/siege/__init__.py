"""What a swarm suffers while strangers flood one of its nodes with connections."""
