"""Labels that are noised once, and embeddings."""

from mechanisms.labels.flips import LabelDP

__all__ = ["LabelDP"]
