"""From a swarm's folder, or what it will be, to the options of a node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from node.data.text.sentences import encoder_place
from node.invitation.key import key_file, own_key
from node.options import FIRST_WAIT, NodeOptions, parse_arguments, read_kind
from node.storage.folder_lock import runs_aside
from node.storage.owners_files import read_limited
from node.storage.swarm_file import AGREED, SWARM, TASK, Own, Swarm, read_swarm
from node.system.errors import ConfigError, one_line
from protocol.invitation.messages import MAX_TASK_BYTES
from protocol.invitation.roster import task_digest
from protocol.wire.endpoints import of_key
from protocol.wire.ids import Key

STATISTICS = "statistics"
"""The folder in a swarm's folder where the node of its statistics keeps its state."""
_Node = TypeVar("_Node", bound=NodeOptions)


def swarm_options(folder: Path, more: Sequence[str] = (), task: str = TASK) -> NodeOptions:
    """The options of the node in a folder, with its swarm's list. Raises ConfigError."""
    return _options(NodeOptions, folder, folder, more, task)


def statistics_options(kind: type[_Node], folder: Path, more: Sequence[str] = ()) -> _Node:
    """The options of a node, of a `kind` of them, that computes a swarm's statistics. Raises ConfigError."""
    task = AGREED if (folder / AGREED).exists() else TASK
    return _options(kind, folder, folder / STATISTICS, more, task)


def _options(kind: type[_Node], folder: Path, out: Path, more: Sequence[str], task: str) -> _Node:
    swarm = read_swarm(folder)
    key = own_key(folder)
    if key.public not in swarm.names:
        raise ConfigError(
            f"the key in {one_line(str(key_file(folder)))} is not on the list in {SWARM}: join again"
        )
    _check_task(folder, swarm)
    is_without_some = "--again" in more or runs_aside(out)
    written = [
        *arguments(folder / task, swarm.own, swarm.learned_with),
        *(("--wait", FIRST_WAIT) if is_without_some else ()),
        *more,
        "--out",
        str(out),
        "--key",
        str(key_file(folder)),
    ]
    return replace(read_kind(kind, written, os.environ), swarm=swarm, swarm_folder=folder)


def own_choices(data: Path, cells: str | None, blank_person: str | None, encoder: str | None) -> Own:
    """What an owner gave on the command line, with paths from the root on, as the folder keeps it."""
    return Own(
        data=str(data.absolute()),
        cells=cells or "",
        blank_person=blank_person or "",
        encoder=encoder_place(encoder),
    )


def arguments(task: Path, own: Own, members: Sequence[Key]) -> list[str]:
    """The options of a node that learns a task with these members, whose addresses are their keys."""
    peers = ",".join(f"{key.hex()}@{of_key(key)}" for key in members)
    return ["--task", str(task), *own.arguments, "--peers", peers, "--wait", "forever"]


def options_to_check(task: Path, own: Own, members: int) -> NodeOptions:
    """The options of a node of a swarm of so many, before its members are known. Raises ConfigError."""
    somebody = tuple(bytes([number]) * 32 for number in range(1, members + 1))
    return parse_arguments(arguments(task, own, somebody))


def _check_task(folder: Path, swarm: Swarm) -> None:
    """Raises ConfigError unless the folder has the task that all members agreed to."""
    task = read_limited(folder / TASK, MAX_TASK_BYTES)
    if task is None or task_digest(task) != swarm.roster.task:
        raise ConfigError(
            f"{one_line(str(folder / TASK))} is not the task of this list: put back the one of all"
        )
