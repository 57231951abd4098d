"""Several runs side by side: their figures in a table, their curves in one chart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from node.observe.run_folder import RunFolder
from node.observe.views import ComparisonView, NodeView, Point, Run
from node.runtime.record.figures import AGGREGATED, Record

MAX_POINTS = 500
"""The most rounds of a curve: about as many as a chart has pixels."""


class Comparison:
    """The source of the page that compares the runs in several folders."""

    def __init__(self, folders: Sequence[RunFolder]) -> None:
        self._folders = tuple(folders)
        self.ended = False

    def now(self) -> float:
        """Returns Unix seconds."""
        return self._folders[0].now()

    async def view(self) -> ComparisonView:
        """Returns the current view. Raises UserError for a damaged file."""
        return await asyncio.to_thread(self.read)

    def read(self) -> ComparisonView:
        """Reads the folders' files. Raises UserError for a damaged file."""
        return compared([folder.read() for folder in self._folders])


def compared(views: Sequence[NodeView]) -> ComparisonView:
    """Returns the comparison of several runs, whose own pages have the addresses 1/, 2/ and so on."""
    runs = tuple(_run(view, f"{place}/") for place, view in enumerate(views, 1))
    return ComparisonView(kind="comparison", runs=runs, ended=all(run.ended for run in runs))


def thinned(rounds: Sequence[Record], most: int) -> tuple[Record, ...]:
    """Returns at most `most` (2 or more) of the rounds, evenly spaced, the first and the last among them."""
    if len(rounds) <= most:
        return tuple(rounds)
    return tuple(rounds[place * (len(rounds) - 1) // (most - 1)] for place in range(most))


def _run(view: NodeView, path: str) -> Run:
    rounds, privacy = view.history, view.privacy or {}
    last = rounds[-1] if rounds else None
    mechanism = privacy.get("mechanism")
    return Run(
        folder=view.folder,
        path=path,
        task=view.task,
        key=view.key,
        round=view.round,
        rounds=view.rounds,
        ended=view.ended,
        silent_since=view.silent_since,
        sums=view.generation if view.exact else None,
        over=view.over or view.round >= view.rounds,
        aggregated=sum(one.outcome == AGGREGATED for one in rounds),
        fallbacks=sum(one.outcome != AGGREGATED for one in rounds),
        metric=last.metric if last else "accuracy",
        accuracy_of=view.accuracy_of,
        value=last.value if last else None,
        loss=last.loss if last else None,
        epsilon=last.epsilon if last else None,
        mechanism=mechanism if isinstance(mechanism, str) else None,
        bytes_sent=sum(one.bytes_sent for one in rounds),
        train_s=sum(one.train_s for one in rounds),
        aggregate_s=sum(one.aggregate_s for one in rounds),
        base_digest=view.base_digest,
        points=tuple(
            Point(one.round, one.value, one.loss, one.epsilon) for one in thinned(rounds, MAX_POINTS)
        ),
    )
