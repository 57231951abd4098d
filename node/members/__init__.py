"""`murmuration members FOLDER`: the members of a swarm by invitation."""
