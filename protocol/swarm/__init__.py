"""One node in a swarm: from peer discovery to the end of its last round."""
