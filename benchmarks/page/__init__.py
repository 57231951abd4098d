"""The page of a node in a real browser, and what it costs a swarm if somebody watches."""
