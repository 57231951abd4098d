"""Targets and cells that need a treatment of their own: counts, rare classes, limits, wide tables."""
