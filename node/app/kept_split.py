"""How a run's own rows are split: each by itself (node.data.sides), unless an older version began the run."""

from __future__ import annotations

from mechanisms.mechanism import Protection
from mechanisms.units import ONE_PERSON, ONE_RECORD
from node.data.sides import Split
from node.options import NodeOptions
from node.storage.key_file import read_key
from node.storage.state import splits_as_before

SPLIT = "split"
_OF_BEFORE = "split of before"
_A_NEW_ONE = "another --out begins with one that decides each row alone"


def kept_split(options: NodeOptions) -> Split:
    """Returns how the rows are split; parts of a common data set have no rows of their own to split."""
    if options.shard is not None:
        return Split.ROW
    key = read_key(options.key) if options.out is None and options.key is not None else None
    folder = options.folder(b"" if key is None else key.public)
    return Split.BEFORE if splits_as_before(folder) else Split.ROW


def split_words(split: Split, mechanism: Protection) -> dict[str, str]:
    """Returns the start-up line about a split by an older version; {} if each row was split by itself.

    A bound for the whole data of a node covers any split of it.
    """
    if split is Split.ROW:
        return {}
    guarantee = mechanism.guarantee
    uncovered = guarantee is not None and guarantee.unit in (ONE_RECORD, ONE_PERSON)
    why = ": the bound for a row does not cover it" if uncovered else ", as this folder began"
    return {SPLIT: f"{_OF_BEFORE}{why}; {_A_NEW_ONE}"}
