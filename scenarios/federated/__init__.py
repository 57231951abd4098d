"""Federated averaging with a server as a cell of a sweep: its rounds and its measures."""
