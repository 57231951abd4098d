"""The page in a real browser, and what it costs a swarm when somebody watches it."""
