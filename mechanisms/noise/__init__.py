"""Clipping, exact noise, and the sources of its randomness."""

from mechanisms.noise.noise import noised

__all__ = ["noised"]
