"""A node for programs and notebooks: they create it in a line, watch its rounds and use its model."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from node.api.streams import Reading
from node.api.thread_runner import Run
from node.data.in_memory import FrameRows, InMemory, is_frame, rows_of
from node.data.rows import Rows
from node.learners.learner import Learner
from node.net.incoming.listening import endpoint_of
from node.options import ALONE, FIRST_WAIT, NodeOptions, parse_arguments
from node.runtime.record.figures import Record, Summary
from node.system.errors import ConfigError, UserError, shown
from node.task.load import load_task, read_task
from node.task.sections import Task
from node.training.model_file import task_table

TaskLike = str | Path | Mapping[str, object] | Task
"""A built-in name, a FILE.toml, the table of such a file, or a Task."""


OWN_MODEL = "the model is the learner's own: see vector, the"


class Peer:
    """This program's node in a swarm: it learns with the other nodes, round by round.

    ```python
    peer = Peer("ward.toml", "mine.csv", peers=["10.0.0.5:9001", "10.0.0.7:9001", "10.0.0.9:9001"])
    async for round in peer.rounds():
        print(round.round, round.outcome, round.figures)
    peer.summary.figures
    peer.model(x)
    ```

    The node runs in its own thread, with a real listening socket, and continues while the program does other
    work; leaving the loop early ends it, as `stop` does. The folder `out` stays: it contains the ledger of
    spent privacy, and a new Peer with the same folder continues the run.

    Args:
        task: a built-in name, a FILE.toml, the table of such a file, or a Task.
        data: this node's own rows: a file's path; a data frame (pandas, polars, Arrow), read as a file with
            its columns; a pair (x, y) of arrays, tensors or data frames, with shapes (n, ...) and (n,); or a
            torch data set whose items are such pairs. Labels may be text if the task has a schema. None: the
            task's own data.
        learner: what learns, in place of a torch model, with rows of its own: an object with the methods of
            `Learner`. The task then has no `[model]`, and there is no `data`.
        peers: "HOST:PORT" or "KEY@HOST:PORT" of the other nodes; the list may include this node.
        tracker: "http://HOST:PORT", in place of `peers`.
        listen: "HOST:PORT" where others reach this node, or a socket that listens there already and
            that the run closes. None: the one of `peers` that can be bound here.
        shard: (i, n) takes part i of n, from 0, of the task's own data, or of rows in memory.
        rounds: how many agreed sums the run has. None: the task's train.rounds.
        wait: how long to wait for the others before the first group, in whole seconds, or "forever", which
            holds for every group; no round is spent meanwhile. 0: as long as before any other group.
        out: the folder of the run. None: runs/<task>-<first digits of the key>.
        key: the file of the private key. None: node.key in `out`.
        allow: a file of public keys; the node learns only with these.
        open: learn with anyone, even off this machine.
        seed: the seed of the order in which the node trains on its rows.
        alone: when the run is over, how long the node may train a model of its own rows alone, to compare, in
            whole seconds, or "no".

    Raises a `ConfigError` or a `UserError` of one line for every error that a user can correct. The messages
    are those of the command line: `--peers`, `--out` and so on mean the arguments of the same names.

    >>> Peer("digits")
    Traceback (most recent call last):
    node.system.errors.ConfigError: neither is given: --peers HOST:PORT,... or --tracker KEY@URL; ...
    """

    def __init__(
        self,
        task: TaskLike,
        data: object = None,
        *,
        learner: Learner | None = None,
        peers: Sequence[str] = (),
        tracker: str | None = None,
        listen: str | socket.socket | None = None,
        shard: tuple[int, int] | None = None,
        rounds: int | None = None,
        wait: int | str = FIRST_WAIT,
        out: str | Path | None = None,
        key: str | Path | None = None,
        allow: str | Path | None = None,
        open: bool = False,  # noqa: A002 - the option has this name
        seed: int = 0,
        alone: int | str = ALONE,
    ) -> None:
        """Checks the arguments. It reads only the task and data in memory, writes nothing and opens no port.

        Raises ConfigError for invalid arguments.
        """
        listener = listen if isinstance(listen, socket.socket) else None
        named = {
            "peers": ",".join([peers] if isinstance(peers, str) else peers) or None,
            "tracker": tracker,
            "listen": listen if listener is None else endpoint_of(listener, None),
            "rounds": rounds,
            "wait": wait,
            "out": out,
            "key": key,
            "allow": allow,
            "seed": seed,
            "alone": alone,
        }
        argv = [f"--{name}={value}" for name, value in named.items() if value is not None]
        self._run = Run(
            _options(task, data, shard, learner, [*argv, *(["--open"] if open else [])]),
            listener,
            _ignored,
            _ignored,
        )

    def rounds(self) -> Reading[Record]:
        """Returns an async iterator over the records of all rounds (as in `history.jsonl`), each at its end.

        Starts the node. Use it in `async for`: the loop ends with the run, and leaving the loop ends the run.
        After the run, the records can be read again. The loop finally raises the error that ended the node.
        """
        self._run.start()
        return self._run.records.read(self._run.stop)

    def run(self) -> Summary:
        """Learns to the last round and returns the summary. It blocks, even inside a running event loop.

        Raises UserError if the node cannot go on. Ctrl-C ends the node cleanly and then raises.
        """
        self._run.start()
        self._run.join()
        return self.summary

    async def run_async(self) -> Summary:
        """Does the same as `run`, for `await`."""
        async for _ in self.rounds():
            pass
        return self.summary

    def stop(self) -> None:
        """Ends the node cleanly: training between two batches, waits at once. Any thread may call it."""
        self._run.stop()

    def close(self) -> None:
        """Stops the node and waits until its thread and port are gone. Raises no error of the run."""
        close(self._run)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of the rounds so far."""
        return self._run.records.values()

    @property
    def lines(self) -> tuple[str, ...]:
        """The node's output so far, with warnings, as `python -m node` prints it."""
        return self._run.lines

    @property
    def out(self) -> Path | None:
        """The folder of the run; None before the node has one."""
        return self._run.out

    @property
    def summary(self) -> Summary:
        """The summary of the whole run. Waits for the end of a stopped node; UserError while it learns."""
        summary = finished(self._run).summary
        if summary is None:
            raise UserError("there is no summary: the node ended before it had begun")
        return summary

    @property
    def model(self) -> nn.Module:
        """The task's torch module with the agreed base in it, for inference: no gradients, `eval` mode.

        Like `summary`, it is available once the run is over.
        """
        vector, module = self.vector, self._run.module
        if module is None:
            raise UserError(f"{OWN_MODEL} {len(vector)} numbers that are agreed on")
        return module

    @property
    def vector(self) -> NDArray[np.float32]:
        """The numbers of the agreed base, float32 (d,), as a learner has them; available like `model`."""
        vector = finished(self._run).vector
        if vector is None:
            raise UserError("there is no model: the node ended before it had begun")
        return vector


def task_of(task: TaskLike, learner: Learner | None = None) -> Task:
    """Returns the Task that `task` describes, of this learner if one is given.

    Raises ConfigError if there is none.

    >>> task_of("digits").train.rounds
    20
    >>> task_of({"task": {"name": "mine"}})
    Traceback (most recent call last):
    node.system.errors.ConfigError: model.class is missing; allowed: 'package.module:Class'
    """
    path = None if learner is None else f"{type(learner).__module__}:{type(learner).__name__}"
    match task:
        case Task():
            return task if path is None else read_task(_with_learner(task_table(task), path))
        case str() | Path():
            return load_task(str(task), [] if path is None else [f"model.learner={path}"])
        case Mapping():
            return read_task(task if path is None else _with_learner(task, path))
    raise ConfigError(f"task = {shown(task)} is refused; allowed: a name, a FILE.toml, a table, a Task")


def _with_learner(task: Mapping[str, object], path: str) -> dict[str, object]:
    model = task.get("model", {})
    return {**task, "model": {**model, "learner": path} if isinstance(model, Mapping) else model}


def data_of(data: object) -> Path | InMemory | None:
    """Returns a file's path, rows in memory, or None. Raises ConfigError for data that are no rows."""
    if data is None or isinstance(data, str | Path):
        return None if data is None else Path(data)
    if not is_frame(data):
        return rows_of(data)
    from node.data.data_frames import frame_rows  # noqa: PLC0415 - pyarrow, which is large

    return frame_rows(data)


def numbered(
    parts: Sequence[Path | InMemory | None], task: Task, *, together: bool
) -> list[Path | InMemory | None]:
    """Returns the rows with numbers in place of text labels (node.data.data_frames.labelled)."""
    rows = [part for part in parts if isinstance(part, Rows | FrameRows)]
    if all(isinstance(part, Rows) and part.y.dtype.kind != "U" for part in rows):
        return list(parts)
    from node.data.data_frames import labelled  # noqa: PLC0415 - as above

    found = iter(labelled(rows, task, together=together))
    return [next(found) if isinstance(part, Rows | FrameRows) else part for part in parts]


def _options(
    task: TaskLike,
    data: object,
    shard: tuple[int, int] | None,
    learner: Learner | None,
    argv: Sequence[str],
) -> NodeOptions:
    """Returns the options of `argv`, with the task and data, which a command line cannot name."""
    divided = [] if shard is None else [f"--shard={shard[0]}/{shard[1]}"]
    read = task_of(task, learner)
    if learner is not None and (data is not None or shard is not None):
        raise ConfigError(
            "data and shard have no effect beside a learner, which has its own rows; leave them out"
        )
    (rows,) = numbered([data_of(data)], read, together=False)
    if isinstance(rows, Path):
        divided.append(f"--data={rows}")
    options = replace(parse_arguments([*argv, *divided]), task=read, learner=learner)
    return options if rows is None else replace(options, data=rows)


def finished(run: Run) -> Run:
    """Waits for the end of a run that was stopped or is over, and returns the run.

    Raises UserError for a run that still learns, and the error that ended the run, if there was one.
    """
    if not run.begun:
        raise UserError("the node has not begun: run() or rounds() starts it")
    if not (run.stopping or run.records.ended):
        raise UserError("the node still learns: let rounds() come to its end, or call stop()")
    run.join()
    return run


def close(run: Run) -> None:
    """Stops a run and waits for its end; raises no error of the run."""
    run.stop()
    if run.begun:
        with suppress(Exception):
            run.join()


def _ignored(_: object) -> None:
    """Ignores a record or the end of the run: the program reads them from the Peer."""
