"""Nodes find each other, and groups form."""
