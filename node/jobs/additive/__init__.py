"""Additive models by secure sums: one smooth curve for each column of a table."""
