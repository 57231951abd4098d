"""One node in a swarm: from meeting the others to the end of its last round."""
