"""The clients of a server: their rows, their training and their attacks, as replays need them."""
