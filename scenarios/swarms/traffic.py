"""The bytes of a secure sum, from the formulas in docs/protocol.md, "Bytes on the wire": vectors alone."""

from __future__ import annotations

from node.task.sections import AggregationSection
from protocol.aggregation.masked.carries import usual_bytes
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS
from protocol.crypto.prg import SEED_BYTES
from protocol.vectors.pieces import WORD_BYTES
from protocol.vectors.ring import RINGS


def sum_bytes(section: AggregationSection, dimension: int, members: int) -> float:
    """The bytes that each of `members` sends, and also receives, for one sum of vectors (dimension,).

    `dimension` includes the word of a weight, if there is one. A swarm of fewer than two sends nothing.
    """
    others, vector = members - 1, WORD_BYTES * dimension
    if others < 1:
        return 0.0
    if section.protocol == "masked" and members >= LEAST_MEMBERS:
        return _masked_bytes(Layout(dimension, members, ring=RINGS[section.bits]))
    if section.shares == "seed":
        return float((SEED_BYTES + vector) * others)
    return float(2 * vector * others)


def _masked_bytes(layout: Layout) -> float:
    """A masked vector to everybody; or each chunk to its reducer, its total to everybody, and the carries."""
    others = layout.members - 1
    if layout.everybody_adds:
        return float(layout.vector_bytes * others)
    carries = usual_bytes(layout.words, layout.members)
    return (2 * layout.vector_bytes + carries) / layout.members * others  # a member adds up a part
