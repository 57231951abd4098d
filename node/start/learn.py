"""Learning with the members of a list: first their agreement, where the task has one, then the task."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from node.invitation.key import key_file, own_key
from node.options import NodeOptions, parse_arguments
from node.storage.owners_files import read_limited
from node.storage.swarm_file import AGREED, AGREEMENT, SWARM, TASK, Own, Swarm, read_swarm
from node.system.errors import ConfigError, one_line
from protocol.invitation.messages import MAX_TASK_BYTES
from protocol.invitation.roster import task_digest
from protocol.wire.endpoints import of_key
from protocol.wire.ids import Key


def learn(folder: Path, more: Sequence[str] = ()) -> int:
    """Runs the node of a folder to its end; returns the exit status. `more`: further options of a node.

    Raises UserError.
    """
    from node.app.run import run  # noqa: PLC0415 - loads torch: only once the folder is read

    options = swarm_options(folder, more)
    if "agreement" not in tomllib.loads((folder / TASK).read_text("utf-8")):
        return run(options)
    if not (folder / AGREED).exists() and (status := _agree(folder, options)):
        return status
    return run(swarm_options(folder, more, AGREED))


def swarm_options(folder: Path, more: Sequence[str] = (), task: str = TASK) -> NodeOptions:
    """The options of the node in a folder, with its swarm's list. Raises ConfigError."""
    swarm = read_swarm(folder)
    key = own_key(folder)
    if key.public not in swarm.names:
        raise ConfigError(
            f"the key in {one_line(str(key_file(folder)))} is not on the list in {SWARM}: join again"
        )
    _check_task(folder, swarm)
    options = parse_arguments(
        [
            *arguments(folder / task, swarm.own, swarm.learned_with),
            *more,
            "--out",
            str(folder),
            "--key",
            str(key_file(folder)),
        ]
    )
    return replace(options, swarm=swarm, swarm_folder=folder)


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


def _agree(folder: Path, options: NodeOptions) -> int:
    from node.agree.run import agree  # noqa: PLC0415 - loads torch

    there = replace(options, out=folder / AGREEMENT, key=key_file(folder))
    return agree(there, folder / AGREED)
