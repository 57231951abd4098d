"""Federated averaging with a server as a cell of a sweep: its rounds, and what is measured."""
