"""What is kept of a run: each round, its files, and how it ended."""
