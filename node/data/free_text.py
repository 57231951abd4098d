"""Recognises columns of free text, of which this node reads nothing, and says what that loses."""

from __future__ import annotations

from collections.abc import Sequence

from node.data.files.csv_and_parquet import Frame
from node.data.text.columns import Words, is_text, raw_words
from node.system.errors import shown

_LEAST_ROWS = 20
_DIFFERENT = 0.5
"""The share of its cells that are different: fewer may be names of categories."""
_CHARACTERS, _SPACES = 20, 2
"""A cell of free text has so many in the mean."""
_MOST_NAMED = 3


def is_free_text(cells: Words) -> bool:
    """Returns whether the cells of a column are sentences."""
    different = len(cells.words)
    if int((~cells.missing).sum()) < _LEAST_ROWS or different < _DIFFERENT * (~cells.missing).sum():
        return False
    characters, spaces = (sum(map(len, cells.words)), sum(word.strip().count(" ") for word in cells.words))
    return characters >= _CHARACTERS * different and spaces >= _SPACES * different


def lost_texts(frame: Frame, read: Sequence[str]) -> tuple[str, ...]:
    """Returns a line about columns of free text that are not among those that are `read`; none: ()."""
    rest = {name: cells for name, cells in frame.columns.items() if name not in read and is_text(cells)}
    names = [name for name, cells in rest.items() if is_free_text(raw_words(cells))]
    if not names:
        return ()
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    told = (
        f"free text is left out: {', '.join(map(shown, names[:_MOST_NAMED]))}{more}; what it says is lost: "
        "write what matters into columns of their own, alike at all peers (yes or no, a number, a category), "
        "or make the task with node.init --text hashed, for a linear model or a network"
    )
    return (told,)
