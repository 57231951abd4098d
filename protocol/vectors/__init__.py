"""Vectors in the pieces that travel."""
