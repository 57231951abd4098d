"""Boosted trees by secure sums: each level of a tree is one sum."""
