"""Vectors, and the pieces in which nodes send them."""
