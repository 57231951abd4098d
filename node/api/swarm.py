"""A whole swarm in one program, for trying a task before other parties join, and for teaching."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from node.api.peer import OWN_MODEL, TaskLike, close, data_of, finished, numbered, task_of
from node.api.streams import Reading, Stream
from node.api.thread_runner import Run
from node.data.in_memory import InMemory
from node.learners.learner import Learner
from node.net.incoming.listening import DEFAULT, endpoint_of, listen
from node.options import ALONE, NodeOptions, parse_arguments
from node.runtime.record.figures import Record, Summary
from node.system.addresses import parse_peer
from node.system.errors import ConfigError, UserError
from node.task.sections import Task
from protocol.wire.limits import MAX_MEMBERS

_ANY_PEER = "127.0.0.1:1"  # stands for the peers' addresses until they listen


@dataclass(frozen=True)
class Results:
    """A swarm's results: each peer's summary and rounds, in the peers' order, and the agreed model."""

    summaries: tuple[Summary, ...]
    records: tuple[tuple[Record, ...], ...]
    module: nn.Module | None
    """The agreed torch module; None for learners of another framework."""
    vector: NDArray[np.float32]
    """The numbers of the agreed base, float32 (d,), which a learner understands."""

    @property
    def model(self) -> nn.Module:
        """The agreed torch module. Raises UserError for learners of another framework."""
        if self.module is None:
            raise UserError(f"{OWN_MODEL} {len(self.vector)} numbers that are agreed on")
        return self.module

    @property
    def accuracy(self) -> float | None:
        """The mean of the peers' accuracies; peers with shards test on the same rows. None for numbers."""
        known = [summary.accuracy for summary in self.summaries if summary.accuracy is not None]
        return mean(known) if known else None

    @property
    def agreed(self) -> bool:
        """Whether all peers ended with one model, bit for bit."""
        return len({summary.base_digest for summary in self.summaries}) == 1

    def __str__(self) -> str:
        """Returns a line for each peer."""
        lines = [
            f"peer {number}: {summary.aggregated} of {summary.rounds} rounds aggregated, "
            f"{summary.figures}, base {summary.base_digest[:16]}"
            for number, summary in enumerate(self.summaries)
        ]
        return "\n".join(lines)


class Swarm:
    """Several nodes in this program, each with its own thread, loopback socket and data.

    They are real nodes and exchange the same messages as nodes on several machines. They share this process:
    its memory, so nothing is hidden from the program, and its interpreter, so many peers with small models
    are slower than separate processes (`python -m scenarios run swarm` starts those).

    >>> results = Swarm.local(3, "digits", rounds=1).run()
    >>> results.agreed, len(results.summaries)
    (True, 3)
    """

    def __init__(self, options: Sequence[NodeOptions], out: Path | None) -> None:
        """Use `local` to create a swarm. `options` are each peer's, without addresses and folder."""
        self._options = tuple(options)
        self._out = out
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._runs: tuple[Run, ...] = ()
        self._records: Stream[tuple[int, Record]] = Stream()
        self._lock = threading.Lock()
        self._left = len(self._options)
        self._error: BaseException | None = None

    @classmethod
    def local(
        cls,
        peers: int,
        task: TaskLike,
        data: object = None,
        *,
        learners: Sequence[Learner] | None = None,
        rounds: int | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        alone: int | str = ALONE,
    ) -> Swarm:
        """Creates a swarm of `peers` nodes; it does not start them yet.

        Args:
            peers: the number of nodes, from the task's aggregation.min_participants to 64.
            task: as for a Peer.
            data: None, a file, a data frame, a pair (x, y) or a torch data set: the task's own data or these,
                divided among the peers as `--shard` does. A list with one of these per peer: one for each.
                Labels may be text.
            learners: one for each peer, as for a Peer; there is no `data` then.
            rounds: how many agreed sums the run has. None: the task's train.rounds.
            out: the folder of the peers' folders `0`, `1`, ... None: a temporary one, removed at the end.
            seed: peer i orders its rows with the seed `seed` + i.
            alone: how long each peer may train a model of its own rows alone at the end, in whole seconds, or
                "no".

        Raises:
            ConfigError: an argument is invalid.
        """
        read = task_of(task, learners[0] if learners else None)
        least = read.aggregation.min_participants
        if not least <= peers <= MAX_MEMBERS:
            raise ConfigError(
                f"a swarm of {peers} peers is refused; allowed: {least} (aggregation.min_participants) to "
                f"{MAX_MEMBERS}"
            )
        last = [f"--peers={_ANY_PEER}", f"--alone={alone}"]
        last += [] if rounds is None else [f"--rounds={rounds}"]
        return cls(
            [
                replace(options, shard=part.shard, data=part.data, task=part.task, learner=part.learner)
                for number, part in enumerate(_parts(read, data, peers, learners))
                for options in [parse_arguments([*last, f"--seed={seed + number}"])]
            ],
            None if out is None else Path(out),
        )

    def rounds(self) -> Reading[tuple[int, Record]]:
        """Returns an async iterator over (peer, record) of each peer's rounds, each at its end.

        Starts the swarm. Leaving the loop ends all peers. At its end it raises the error of a failed peer.
        """
        self._start()
        return self._records.read(self.stop)

    def run(self) -> Results:
        """Learns to the last round and returns the results. It blocks, even inside a running event loop.

        Raises the UserError of a peer that cannot go on, after it has ended the others. Ctrl-C ends all peers
        cleanly.
        """
        self._start()
        try:
            self._records.wait()
        except KeyboardInterrupt:
            self.close()
            raise
        return self.results

    async def run_async(self) -> Results:
        """Does the same as `run`, for `await`."""
        async for _ in self.rounds():
            pass
        return self.results

    def stop(self) -> None:
        """Ends all peers soon and cleanly. Any thread may call it."""
        for run in self._runs:
            run.stop()

    def close(self) -> None:
        """Stops all peers and waits until threads, ports and the temporary folder are gone."""
        for run in self._runs:
            run.stop()
        for run in self._runs:
            close(run)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def results(self) -> Results:
        """The results. Waits for the end of a stopped swarm; raises UserError while it learns."""
        if not self._runs:
            raise UserError("the swarm has not begun: run() or rounds() starts it")
        runs = [finished(run) for run in self._runs]
        summaries = tuple(run.summary for run in runs if run.summary is not None)
        vector = runs[0].vector
        if vector is None or len(summaries) < len(runs):
            raise UserError("there are no results: the swarm ended before it had begun")
        records = tuple(run.records.values() for run in runs)
        return Results(summaries, records, runs[0].module, vector)

    # -- start and end -----------------------------------------------------------------------------

    def _start(self) -> None:
        if self._runs:
            return
        listeners = [listen(DEFAULT) for _ in self._options]
        endpoints = [endpoint_of(listener, None) for listener in listeners]
        folder = self._out or self._temporary()
        peers = tuple(parse_peer(endpoint, "--peers") for endpoint in endpoints)
        self._runs = tuple(
            Run(
                replace(options, peers=peers, listen=endpoints[number], out=folder / str(number)),
                listeners[number],
                partial(self._keep_record, number),
                self._one_ended,
            )
            for number, options in enumerate(self._options)
        )
        for run in self._runs:
            run.start()

    def _temporary(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="murmuration-")
        return Path(self._folder.name)

    def _keep_record(self, number: int, record: Record) -> None:
        self._records.put((number, record))

    def _one_ended(self, error: BaseException | None) -> None:
        """Runs in a node's thread at its end: a failed node stops all, the last one cleans up."""
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            is_last = not self._left
        if error is not None:
            self.stop()
        if is_last:
            if self._folder is not None:
                self._folder.cleanup()
            self._records.end(self._error)


@dataclass(frozen=True)
class _Part:
    """The task and data of one peer."""

    task: Task
    data: Path | InMemory | None
    shard: tuple[int, int] | None
    learner: Learner | None = None


def _parts(task: Task, data: object, peers: int, learners: Sequence[Learner] | None) -> list[_Part]:
    """Returns one part for each peer: its learner, or its item of a list, otherwise a shard."""
    if learners is not None:
        if len(learners) != peers or data is not None:
            raise ConfigError(
                f"{len(learners)} learners for {peers} peers are refused; allowed: one for each, without data"
            )
        return [_Part(task, None, None, learner) for learner in learners]
    if isinstance(data, list):
        if len(data) != peers:
            raise ConfigError(
                f"data is a list of {len(data)} for {peers} peers; allowed: one for each, or a single file, "
                "pair (x, y) or data set, which is divided among them"
            )
        own = numbered([data_of(one) for one in data], task, together=True)
        return [_Part(task, one, None) for one in own]
    (common,) = numbered([data_of(data)], task, together=True)
    if isinstance(common, Path):
        task, common = replace(task, data=replace(task.data, source=str(common))), None
    return [_Part(task, common, (number, peers)) for number in range(peers)]
