"""Secure aggregation without input or output: bytes and times go in, actions come out."""
