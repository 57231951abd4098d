"""Attacks that infer data from what nodes send: inversion, membership, properties."""
