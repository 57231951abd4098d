"""--again: where a job without noise has lost a member for good, another begins with the rest.

Its members share how often that was done, so that those of the first job do not meet those of the second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from node.app.start_checks import existing_key, key_file_exists
from node.options import NodeOptions
from node.storage.folder_lock import STATE, SUMMARY, Lock, aside, runs_aside
from node.storage.runs_aside import finish_setting_aside, set_aside
from node.system.errors import ConfigError, UserError
from node.system.system import SYSTEM, System

_NOTHING = "--again has nothing to begin anew: {}; allowed: where a job without noise stopped unfinished"
_NOBODY = "the run in {} has lost no member; without --again its node asks whether others have begun another"
_LEFT_BEHIND = """\
Others have begun another job, without members that were gone. --again sets the one in {out} aside, and this
node gets the result of theirs. If their first sum is not made yet, its rows count in it, too.
WHO HAS THE TOTALS OF BOTH CAN SUBTRACT THEM: the difference is what the rows add up to of the members that
only one of the two has. What the first job has is kept in {aside}."""
_WARNING = """\
{gone} did not come, and the job in {out} stopped after sum {sums}, as all its sums have the same members.
--again begins another with the rest. WHO THEN HAS THE TOTALS OF BOTH CAN SUBTRACT THEM: the difference of
each figure that both have is what the rows of {gone} add up to, to the last digit. It cannot be taken back.
If {gone} may come back, wait instead: start without --again. What the first job has is kept in {aside}."""


def begun_again(options: NodeOptions) -> int:
    """Returns how often a job was begun anew in the folder that the options name."""
    out = _folder(options)
    return 0 if out is None else runs_aside(out)


def begin_again(options: NodeOptions, affirmed: Callable[[str], bool], system: System = SYSTEM) -> None:
    """Sets the job of the folder aside, once its owner has affirmed it; does nothing without --again.

    Nor where the job was begun anew and has lost nobody since: the same command line goes on with it.
    Raises ConfigError if no job there has lost a member, or was left behind by others that began another,
    UserError if the owner does not want it.
    """
    if not options.again:
        return
    out = _folder(options)
    if out is None or not out.exists():
        where = "without --out or --key a node begins anew" if out is None else f"no run is in {out}"
        raise ConfigError(_NOTHING.format(where))
    lock = Lock(out)
    try:
        finish_setting_aside(out, system.disk)
        stopped = _of_summary(out / SUMMARY)
        if not (stopped.gone or stopped.left_behind) or not (out / STATE).exists():
            if runs_aside(out):
                return
            raise ConfigError(_NOTHING.format(_NOBODY.format(out)))
        told = {"out": out, "sums": stopped.sums, "aside": aside(out, runs_aside(out) + 1)}
        warning, question = _WARNING, "Begin another job without them?"
        if stopped.left_behind:
            warning, question = _LEFT_BEHIND, "Take part in it?"
        print(warning.format(gone=", ".join(stopped.gone), **told), file=sys.stderr, flush=True)
        if not options.yes and not affirmed(question):
            raise UserError("nothing is begun anew: --again was not affirmed; type yes, or give --yes")
        set_aside(out, system.disk)
    finally:
        lock.release()


def _folder(options: NodeOptions) -> Path | None:
    return options.folder(existing_key(options).public) if key_file_exists(options) else options.out


@dataclass(frozen=True)
class _Stopped:
    """How a run ended by its summary: who was `gone`, after how many `sums`, and whether others left it."""

    gone: tuple[str, ...] = ()
    sums: int = 0
    left_behind: bool = False


def _of_summary(path: Path) -> _Stopped:
    """Returns how a run ended; nobody was gone if the file does not say so."""
    try:
        found = json.loads(path.read_bytes())
        gone, sums = tuple(map(str, found.get("gone", ()))), int(found.get("generation", 0))
        return _Stopped(gone, sums, found.get("left_behind") is True)
    except (OSError, ValueError, AttributeError, TypeError):
        return _Stopped()
