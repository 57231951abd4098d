"""Private steps with shared noise, beside a trusted server and nodes that each noise for themselves."""
