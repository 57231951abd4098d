"""Learning with the members of a list: first their agreement, where the task has one, then the task."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from node.cli.written_file import BESIDE, STATISTICS_ENDING, written_file
from node.invitation.key import key_file
from node.invitation.node_options import statistics_options, swarm_options
from node.options import NodeOptions
from node.storage.swarm_file import AGREED, AGREEMENT, TASK


def learn(folder: Path, more: Sequence[str] = ()) -> int:
    """Runs the node of a folder to its end; returns the exit status. `more`: further options of a node.

    A task without a model has its statistics computed. Raises UserError.
    """
    from node.app.run import run  # noqa: PLC0415 - loads torch: only once the folder is read

    options, task = swarm_options(folder, more), TASK
    if "agreement" in tomllib.loads((folder / TASK).read_text("utf-8")):
        if not (folder / AGREED).exists() and (status := _agree(folder, options)):
            return status
        task = AGREED
    if not options.task.learns:
        return _compute(folder, more)
    return run(options if task == TASK else swarm_options(folder, more, task))


def _agree(folder: Path, options: NodeOptions) -> int:
    from node.agree.run import agree  # noqa: PLC0415 - loads torch

    there = replace(options, out=folder / AGREEMENT, key=key_file(folder))
    return agree(there, folder / AGREED)


def _compute(folder: Path, more: Sequence[str]) -> int:
    from node.stats.run import stats  # noqa: PLC0415 - loads torch

    options = statistics_options(NodeOptions, folder, more)
    return stats(options, written_file(BESIDE, str(folder / TASK), STATISTICS_ENDING, force=True))
