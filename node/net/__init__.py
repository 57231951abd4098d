"""Connections: accepting, dialling, sending and their limits."""
