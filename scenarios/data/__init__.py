"""Data sets: their sources, their partitions among clients, and models for them."""
