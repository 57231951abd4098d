"""Benchmark: targets that ask for a treatment of their own."""
