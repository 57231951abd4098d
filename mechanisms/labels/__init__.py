"""Label privacy and embedding privacy by randomised response."""

from mechanisms.labels.flips import LabelDP

__all__ = ["LabelDP"]
