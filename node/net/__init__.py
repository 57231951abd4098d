"""Connections: what is accepted, dialled, sent, limited."""
