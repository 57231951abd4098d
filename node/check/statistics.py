"""The checks of a task's `[statistics]`: what its node computes before it meets others."""

from __future__ import annotations

from collections.abc import Iterator

from node.check.finding import Finding
from node.options import NodeOptions
from node.stats.run import prepare_statistics
from node.system.errors import UserError
from node.task.statistics import StatisticsSection

_SUBJECT = "statistics"


def statistics_findings(options: NodeOptions) -> Iterator[Finding]:
    """Yields what a start of `murmuration stats` would refuse, and what it warns of."""
    if options.task.statistics == StatisticsSection() and options.task.learns:
        return
    try:
        prepared, _ = prepare_statistics(options)
    except UserError as error:
        yield Finding("problem", _SUBJECT, str(error))
        return
    yield Finding("ok", _SUBJECT, f"{prepared.about.what}; {prepared.about.data}")
    for note in prepared.about.notes.values():
        yield Finding("warning", _SUBJECT, note)
