"""What models of tables learn in a swarm, and statistics."""
