"""The nodes of a vertical cell in child processes: the leader in a server's role, the follower its client.

    round n of the federation     leader ──gradients in the outputs of n - 1──▶ follower
                                  leader ◀──the outputs of request n── follower

A batch is a round. In place of the model the leader sends gradients, two for each row, and the follower
returns outputs, two for each row. Both nodes know the plan, so no request is sent. The leader has no column
of the follower; the follower has no label and no column of the leader.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import torch

from mechanisms.noise.randomness import SystemWords
from node.system.errors import UserError
from scenarios.engines.clock import clocked
from scenarios.engines.federated_worker import say
from scenarios.engines.federation import Server, Shape, work_for
from scenarios.engines.frames import longest_frame
from scenarios.engines.room import LocalRoom
from scenarios.frame.work import print_round
from scenarios.study.cells import Shelf
from scenarios.vertical.cell import VerticalCell, epochs_of, follower_of
from scenarios.vertical.parties import Floats, Follower, FollowerRows, LeaderRows, Plan, Request
from scenarios.vertical.wide_deep import SCALARS

_FOLLOWER = 0  # the number of the only client, and of its node


@dataclass(frozen=True)
class Told:
    """The input that both nodes of a cell share."""

    cell: VerticalCell
    plan: Plan

    @property
    def longest(self) -> int:
        """The bytes of the longest frame: two numbers for each row of the largest batch."""
        return longest_frame(SCALARS * self.plan.batch_size, 1)


# -- the leader's node -------------------------------------------------------------------------------------


@dataclass
class Wire:
    """The link to a follower that runs on its own node. waiting: the request that it has not answered yet."""

    server: Server
    waiting: Request | None = None
    _rounds: Iterator[int] = field(default_factory=lambda: count(1))

    def exchange(self, request: Request, gradients: Floats) -> Floats:
        """See Link.exchange."""
        self.waiting = request
        shape = (len(request.rows), SCALARS)
        sent = self.server.gather(next(self._rounds), gradients, [_FOLLOWER], shape)
        if _FOLLOWER not in sent:
            raise left(request)
        self.waiting = None
        return sent[_FOLLOWER]


def left(request: Request) -> UserError:
    """The error for a follower that is gone."""
    part = "step" if request.learning else "judging batch"
    return UserError(
        f"the follower left in {part} {request.step} of epoch {request.epoch}; vertical learning cannot go "
        "on without it: run the same command again"
    )


def lead(told: Told, rows: LeaderRows, folder: Path, listener: socket.socket) -> int:
    """Run the leader: print a line per epoch, write the outcome to `folder`, return the exit status.

    Raises UserError.
    """
    torch.set_num_threads(1)
    with listener, Server(listener, 1, told.longest, say) as server, named(Wire(server)) as wire:
        server.assemble()
        outcome = clocked(
            lambda tell: epochs_of(
                told.cell, told.plan, rows, wire, SystemWords(), LocalRoom(folder, say=tell)
            ),
            print_round,
        )
    Shelf(folder).put(told.cell, outcome)
    return 0


@contextmanager
def named(wire: Wire) -> Iterator[Wire]:
    """Turn an error while the leader waits for the follower into one that says that the follower left."""
    try:
        yield wire
    except UserError as error:
        if wire.waiting is None:
            raise
        raise left(wire.waiting) from error


# -- the follower's node -----------------------------------------------------------------------------------


class Answers:
    """The follower's side of the plan: one answer per round, in order."""

    def __init__(self, plan: Plan, follower: Follower) -> None:
        self._follower = follower
        self._rounds: Iterator[tuple[int, Request]] = enumerate(plan.requests(), start=1)
        self._rows_before = 0

    def shape(self) -> Shape:
        """The shape of the next gradients."""
        return (self._rows_before, SCALARS)

    def answer(self, client: int, number: int, gradients: Floats) -> Floats:
        """Return the outputs (n, 2) of round `number`, after the gradients (m, 2) in those before.

        Raises UserError for a round that is not the next one: this node or the leader was restarted.
        """
        expected, request = next(self._rounds, (0, None))
        if request is None or number != expected:
            raise UserError(f"the leader is in round {number}, the follower in {expected}: one began anew")
        outputs = self._follower.answer(request, gradients)
        self._rows_before = len(request.rows) if request.learning else 0
        return outputs


def follow(told: Told, rows: FollowerRows, folder: Path) -> int:
    """Run the follower: answer until the leader is done; return the exit status. Raises UserError."""
    torch.set_num_threads(1)
    answers = Answers(told.plan, follower_of(told.cell, rows, SystemWords()))
    work_for(folder, _FOLLOWER, told.longest, answers.shape, answers.answer)
    return 0
