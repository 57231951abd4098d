"""`murmuration join CODE --data FILE`: joins a swarm by a code."""
