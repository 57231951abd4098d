"""`murmuration start FOLDER`: goes on with a swarm by invitation, wherever it stands."""
