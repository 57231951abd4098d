"""Swarms of peers: real nodes on this machine, replays, and their results."""
