"""The nodes of a vertical cell in child processes: the leader in a server's role, the follower its client.

    round n of the federation     leader ──gradients in the outputs of n - 1──▶ follower
                                  leader ◀──the outputs of request n── follower

A batch is a round. In place of the model the leader sends gradients, two for each row, and the follower
returns outputs, two for each row. Both nodes know the plan, so no request is sent. The leader has no column
of the follower; the follower has no label and no column of the leader.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import torch

from mechanisms.noise.randomness import SystemWords
from node.errors import UserError
from node.federation import ClientNode, Gather, ServerNode
from scenarios.engines.clock import clocked
from scenarios.engines.federated_worker import run_client, say
from scenarios.engines.room import LocalRoom
from scenarios.frame.work import round_line
from scenarios.study.cells import Outcome, Shelf
from scenarios.vertical.cell import VerticalCell, epochs_of, follower_of
from scenarios.vertical.parties import Floats, Follower, FollowerRows, LeaderRows, Plan, Request
from scenarios.vertical.wide_deep import SCALARS

_FOLLOWER = 0  # the number of the only client, and of its node


@dataclass(frozen=True)
class Told:
    """The input that both nodes of a cell share. run: the secret that names the run."""

    cell: VerticalCell
    plan: Plan
    run: bytes = field(repr=False)

    @property
    def dimension(self) -> int:
        """The dimension of the vectors that are sent: two numbers for each row of the largest batch."""
        return SCALARS * self.plan.batch_size


def padded(values: Floats, dimension: int) -> Floats:
    """Flatten `values` (n, 2) and pad them with zeros to (dimension,)."""
    whole = np.zeros(dimension, np.float32)
    whole[: values.size] = values.ravel()
    return whole


def unpadded(whole: Floats, rows: int) -> Floats:
    """Return the values (rows, 2) that `padded` turned into `whole` (dimension,)."""
    return whole[: SCALARS * rows].reshape(rows, SCALARS).copy()


@dataclass
class Waiting:
    """The request that the follower has not answered yet; None between requests."""

    request: Request | None = None


@dataclass(frozen=True)
class Wire:
    """The link to a follower that runs on its own node."""

    gather: Gather
    dimension: int
    waiting: Waiting
    _rounds: Iterator[int] = field(default_factory=lambda: count(1))

    def exchange(self, request: Request, gradients: Floats) -> Floats:
        """See Link.exchange."""
        self.waiting.request = request
        sent = self.gather(next(self._rounds), padded(gradients, self.dimension), [_FOLLOWER])
        if _FOLLOWER not in sent:
            raise left(request)
        self.waiting.request = None
        return unpadded(sent[_FOLLOWER], len(request.rows))


def left(request: Request) -> UserError:
    """The error for a follower that is gone."""
    part = "step" if request.learning else "judging batch"
    return UserError(
        f"the follower left in {part} {request.step} of epoch {request.epoch}; vertical learning cannot go "
        "on without it: run the same command again"
    )


# -- the leader's node -------------------------------------------------------------------------------------


def lead(told: Told, rows: LeaderRows, listener: socket.socket, folder: Path) -> int:
    """Run the leader: print a line per epoch, write the outcome to `folder`, return the exit status.

    Raises UserError.
    """
    torch.set_num_threads(1)
    waiting = Waiting()

    def work(gather: Gather) -> Outcome:
        wire = Wire(gather, told.dimension, waiting)
        return clocked(
            lambda tell: epochs_of(
                told.cell, told.plan, rows, wire, SystemWords(), LocalRoom(folder, 1, tell)
            ),
            lambda number, figure: say(round_line(number, figure)),
        )

    async def run() -> Outcome:
        return await ServerNode(told.run, told.dimension, 1, say).run(listener, work)

    with listener, named(waiting):
        Shelf(folder).put(told.cell, asyncio.run(run()))
    return 0


@contextmanager
def named(waiting: Waiting) -> Iterator[None]:
    """Turn an error while the leader waits for the follower into one that says that the follower left."""
    try:
        yield
    except UserError as error:
        if waiting.request is None:
            raise
        raise left(waiting.request) from error


# -- the follower's node -----------------------------------------------------------------------------------


class Answers:
    """The follower's side of the plan: one answer per round, in order."""

    def __init__(self, plan: Plan, follower: Follower) -> None:
        self._follower = follower
        self._rounds: Iterator[tuple[int, Request]] = enumerate(plan.requests(), start=1)
        self._rows_before = 0
        self._dimension = SCALARS * plan.batch_size

    def answer(self, number: int, gradients: Floats) -> Floats:
        """Return the answer (dimension,) to `gradients` (dimension,) of round `number`.

        Raises UserError for a round that is not the next one: this node or the leader was restarted.
        """
        expected, request = next(self._rounds, (0, None))
        if request is None or number != expected:
            raise UserError(f"the leader is in round {number}, the follower in {expected}: one began anew")
        outputs = self._follower.answer(request, unpadded(gradients, self._rows_before))
        self._rows_before = len(request.rows)
        return padded(outputs, self._dimension)


def follow(told: Told, rows: FollowerRows, listener: socket.socket, leader: str) -> int:
    """Run the follower: answer until the leader is done; return the exit status. Raises UserError."""
    torch.set_num_threads(1)
    answers = Answers(told.plan, follower_of(told.cell, rows, SystemWords()))

    def train(client: int, number: int, gradients: Floats, stop: threading.Event) -> Floats:
        return answers.answer(number, gradients)

    return run_client(
        lambda: ClientNode(told.run, told.dimension, _FOLLOWER, listener, leader, train), listener
    )
