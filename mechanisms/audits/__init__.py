"""Attacks on a mechanism: a lower bound of what it gives away."""
