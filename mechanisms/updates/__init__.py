"""Mechanisms of a node's offers, by their names in task files."""
