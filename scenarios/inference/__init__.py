"""Attacks that read data out of what is sent: inversion, membership, properties."""
