"""The clients of a server: their rows, their training, those that attack, and what a replay of them needs."""
