"""Engines, which compute cells: in this process in blocks, by real nodes, or on a cluster."""
