"""Label mechanisms as a user may write them, for tests to name by import path."""

from __future__ import annotations

from mechanisms.labels.flips import LabelDP

HALF = 0.5


class Halving:
    """Multiplies labels by a factor, without any privacy."""

    def __init__(self, words, share):
        self.share = share

    def __call__(self, labels):
        return self.share * labels


class Boasting(LabelDP):
    """Claims an epsilon, and changes nothing."""

    def __call__(self, labels):
        return labels


class Stuck:
    """Fails when it is used."""

    def __init__(self, words):
        pass

    def __call__(self, labels):
        raise RuntimeError("the scales are stuck")


class Short:
    """Drops a label."""

    def __init__(self, words):
        pass

    def __call__(self, labels):
        return labels[:-1]
