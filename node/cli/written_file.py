"""The option --write of a command: the file that its result goes to."""

from __future__ import annotations

from pathlib import Path

from node.cli.options import reachable_path
from node.system.errors import ConfigError, shown

BESIDE = Path()
"""Stands for a file beside the task, unless another is named."""
STATISTICS_ENDING = "-statistics.html"


def written_file(given: Path, task: str, ending: str, *, force: bool) -> Path:
    """Returns the file to write: `given`, or the task's name with this ending, such as "-agreed.toml".

    Raises ConfigError if it has another suffix, or exists and may not be replaced by `force`.
    """
    beside = Path(task).with_name(f"{Path(task).stem}{ending}")
    path = reachable_path(str(beside), "--write") if given is BESIDE else given
    if path.suffix != beside.suffix:
        raise ConfigError(f"--write {shown(str(path))} is refused; allowed: a FILE{beside.suffix}")
    if path.exists() and not force:
        raise ConfigError(
            f"--write {shown(str(path))} exists already; give another, or --force to replace it"
        )
    return path
