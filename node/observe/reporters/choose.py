"""Starts the reporters that the owner asked for; each library is imported in its reporter's own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from node.observe.reporters.reporter import Reporter, ReporterThread
from node.options import ReportTo
from node.runtime.record.events import Observer


@contextmanager
def reporting(
    wanted: Sequence[ReportTo], task: str, key: str, warn: Callable[[str], None]
) -> Iterator[tuple[Observer, ...]]:
    """Yields an observer for each of `wanted`; at the end, waits until all has been written.

    `key`: the node's public key in hex; its first digits and the task name the run, so that the nodes of one
    machine can share a folder.
    """
    with ExitStack() as ends:
        threads = [ReporterThread(one.name, _opening(one, task, key), warn) for one in wanted]
        for thread in threads:
            ends.callback(thread.close)
        yield tuple(threads)


def _opening(wanted: ReportTo, task: str, key: str) -> Callable[[], Reporter]:
    """Returns what opens a reporter, one of node.options.REPORTERS."""
    run = f"{task}-{key[:8]}"

    def tensorboard() -> Reporter:
        from node.observe.reporters.tensorboard import TensorBoard  # noqa: PLC0415 - optional, and slow

        return TensorBoard(wanted.folder, run)

    def mlflow() -> Reporter:
        from node.observe.reporters.mlflow import MLflow  # noqa: PLC0415 - optional, and slow

        return MLflow(wanted.folder, run, task)

    return {"tensorboard": tensorboard, "mlflow": mlflow}[wanted.name]
