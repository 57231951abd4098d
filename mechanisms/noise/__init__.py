"""Clipping, exact noise, and where its randomness comes from."""

from mechanisms.noise.noise import noised

__all__ = ["noised"]
