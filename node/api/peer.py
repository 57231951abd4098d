"""A node for programs and notebooks: made in a line, watched round by round, asked for its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from torch import nn

from node.api.streams import Reading
from node.api.thread_runner import Run
from node.data.in_memory import Rows, rows_of
from node.errors import ConfigError, UserError, shown
from node.options import NodeOptions, parse_arguments
from node.runtime.artifacts import Record, Summary
from node.task.load import load_task, read_task
from node.task.sections import Task

TaskLike = str | Path | Mapping[str, object] | Task
"""A built-in name, a FILE.toml, the table that such a file holds, or a Task."""


class Peer:
    """This program's node in a swarm: it learns with the others from the first round asked for to the last.

    ```python
    peer = Peer("ward.toml", "mine.csv", peers=["10.0.0.5:9001", "10.0.0.7:9001", "10.0.0.9:9001"])
    async for round in peer.rounds():
        print(round.round, round.outcome, round.accuracy)
    peer.summary.accuracy
    peer.model(x)
    ```

    The node lives in a thread of its own, with a real listening socket, and goes on while the program does
    something else; leaving the loop early ends it, as `stop` does. Its folder `out` is kept: the ledger of
    spent privacy is in there, and the same folder again goes on where it stopped.

    Args:
        task: a built-in name, a FILE.toml, the table that such a file holds, or a Task.
        data: this node's own rows: a file's path; a pair (x, y) of arrays, tensors or data frames, with
            shapes (n, ...) and (n,); or a data set as torch knows them, whose items are such pairs. None:
            the task's own.
        peers: "HOST:PORT" or "KEY@HOST:PORT" of the others, this node among them or not.
        tracker: "http://HOST:PORT", in place of `peers`.
        listen: "HOST:PORT" where others reach this node. None: the one of `peers` that can be bound here.
        shard: (i, n) takes part i of n, from 0, of the task's own data, or of rows in memory.
        rounds: the last round to take part in. None: the task's train.rounds.
        out: the folder of the run. None: runs/<task>-<first digits of the key>.
        key: the file of the private key. None: node.key in `out`.
        allow: a file of public keys; others are not learned with.
        open: learn with anyone, off this machine too.
        seed: the order in which rows are trained on.

    Whatever a user can mend is a `ConfigError` or a `UserError` of one line, as on the command line, whose
    option of the same name is meant where it says `--peers`, `--out` and so on.

    >>> Peer("digits")
    Traceback (most recent call last):
    node.errors.ConfigError: neither is given: --peers HOST:PORT,... or --tracker KEY@URL; give exactly one...
    """

    def __init__(
        self,
        task: TaskLike,
        data: object = None,
        *,
        peers: Sequence[str] = (),
        tracker: str | None = None,
        listen: str | None = None,
        shard: tuple[int, int] | None = None,
        rounds: int | None = None,
        out: str | Path | None = None,
        key: str | Path | None = None,
        allow: str | Path | None = None,
        open: bool = False,  # noqa: A002 - the option is called so
        seed: int = 0,
    ) -> None:
        """Check what is asked for. Nothing is read but the task, nothing written, no port opened.

        Raises ConfigError for what can not be.
        """
        named = {
            "peers": ",".join([peers] if isinstance(peers, str) else peers) or None,
            "tracker": tracker,
            "listen": listen,
            "rounds": rounds,
            "out": out,
            "key": key,
            "allow": allow,
            "seed": seed,
        }
        argv = [f"--{name}={value}" for name, value in named.items() if value is not None]
        self._run = Run(
            _options(task, data, shard, [*argv, *(["--open"] if open else [])]), None, _ignored, _ignored
        )

    def rounds(self) -> Reading[Record]:
        """Every round's record (`history.jsonl` has the same), from the first, each at its end.

        Starts the node. To be used in `async for`; the loop ends with the run, and leaving it ends the run.
        The records of a run that is over can be had again. Raises what ended the node, at the end.
        """
        self._run.start()
        return self._run.records.read(self._run.stop)

    def run(self) -> Summary:
        """Learn to the last round; the summary. Also inside a running event loop, which stands still.

        Raises UserError if the node can not go on. Ctrl-C ends the node cleanly, and is raised then.
        """
        self._run.start()
        self._run.join()
        return self.summary

    async def run_async(self) -> Summary:
        """As `run`, for `await`."""
        async for _ in self.rounds():
            pass
        return self.summary

    def stop(self) -> None:
        """End soon and cleanly: training between two batches, every wait at once. From anywhere."""
        self._run.stop()

    def close(self) -> None:
        """Stop, and wait until thread and port are gone; nothing is raised for how the run ended."""
        close(self._run)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def records(self) -> tuple[Record, ...]:
        """The rounds so far."""
        return self._run.records.values()

    @property
    def lines(self) -> tuple[str, ...]:
        """What the node said so far, warnings too, as `python -m node` prints it."""
        return self._run.lines

    @property
    def out(self) -> Path | None:
        """The folder of the run; None before it has one."""
        return self._run.out

    @property
    def summary(self) -> Summary:
        """The run as a whole. Waits for the end of a node that was stopped; UserError while it learns."""
        summary = finished(self._run).summary
        if summary is None:
            raise UserError("there is no summary: the node ended before it had begun")
        return summary

    @property
    def model(self) -> nn.Module:
        """The task's torch module with the agreed base in it, for use: no gradients, `eval` mode.

        As `summary`, it is there once the run is over.
        """
        module = finished(self._run).module
        if module is None:
            raise UserError("there is no model: the node ended before it had begun")
        return module


def task_of(task: TaskLike) -> Task:
    """The Task that is meant; ConfigError where it is none.

    >>> task_of("digits").train.rounds
    20
    >>> task_of({"task": {"name": "mine"}})
    Traceback (most recent call last):
    node.errors.ConfigError: model.class is missing; allowed: 'package.module:Class'
    """
    match task:
        case Task():
            return task
        case str() | Path():
            return load_task(str(task), [])
        case Mapping():
            return read_task(task)
    raise ConfigError(f"task = {shown(task)} is refused; allowed: a name, a FILE.toml, a table, a Task")


def data_of(data: object) -> Path | Rows | None:
    """A file, rows in memory, or none; ConfigError for what can not be read as rows."""
    return None if data is None else Path(data) if isinstance(data, str | Path) else rows_of(data)


def _options(task: TaskLike, data: object, shard: tuple[int, int] | None, argv: Sequence[str]) -> NodeOptions:
    """What the command line `argv` asks for, with a task and data that no command line can name."""
    divided = [] if shard is None else [f"--shard={shard[0]}/{shard[1]}"]
    rows = data_of(data)
    if isinstance(rows, Path):
        divided.append(f"--data={rows}")
    options = replace(parse_arguments([*argv, *divided]), task=task_of(task))
    return options if rows is None else replace(options, data=rows)


def finished(run: Run) -> Run:
    """The run, once it is over; UserError for one that still learns, and what ended it, if an error did."""
    if not run.begun:
        raise UserError("the node has not begun: run() or rounds() starts it")
    if not (run.stopping or run.records.ended):
        raise UserError("the node still learns: let rounds() come to its end, or call stop()")
    run.join()
    return run


def close(run: Run) -> None:
    """Stop, and wait for the end, however it is."""
    run.stop()
    if run.begun:
        with suppress(Exception):
            run.join()


def _ignored(_: object) -> None:
    """A peer's records and end are asked for, not announced."""
