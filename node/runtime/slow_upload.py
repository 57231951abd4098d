"""Tells the owner of a node on a slow line that its part of a sum comes too late for the others."""

from __future__ import annotations

from node.task.sections import AggregationSection
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS
from protocol.aggregation.transfer import additive_bytes, transfer_s
from protocol.vectors.ring import RINGS


def sent_bytes(section: AggregationSection, dimension: int, members: int) -> float:
    """Returns what a member of a group of this size sends in the longer half of a sum."""
    if section.protocol == "masked" and members >= LEAST_MEMBERS:
        return Layout(dimension, members, ring=RINGS[section.bits]).sent_bytes
    return additive_bytes(dimension, members)


def slow_upload_text(
    section: AggregationSection, dimension: int, members: int, rate: float, whose: str = "your"
) -> str | None:
    """Returns the line for a node that sends `rate` bytes per second; None if that is fast enough.

    It assumes that the others wait as long as this node would: it does not know their times.
    """
    size = sent_bytes(section, dimension, members)
    needs_s, wait_s = size / rate, section.sums_timeout_s + transfer_s(size, section.least_rate)
    if needs_s <= wait_s:
        return None
    return (
        f"{whose} upload needs {needs_s:.0f} s ({size / 1e6:.1f} MB at {rate / 1e3:.1f} kB/s), the others "
        f"wait {wait_s:.0f}: set aggregation.least_rate to {max(1_000, int(rate))} or less at all peers, "
        "take a smaller model, or use a faster line"
    )
