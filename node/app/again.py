"""--again: where a job without noise has lost a member for good, another begins with the rest.

Its members share how often that was done, so that those of the first job do not meet those of the second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from node.app.start_checks import existing_key, key_file_exists
from node.options import NodeOptions
from node.storage.folder_lock import STATE, SUMMARY, Lock, aside, runs_aside
from node.storage.runs_aside import finish_setting_aside, set_aside
from node.system.errors import ConfigError, UserError
from node.system.system import SYSTEM, System

_NOTHING = "--again has nothing to begin anew: {}; allowed: where a job without noise stopped unfinished"
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
    Raises ConfigError if no job there has lost a member, UserError if the owner does not want it.
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
        gone, sums = _of_summary(out / SUMMARY)
        if not gone or not (out / STATE).exists():
            if runs_aside(out):
                return
            raise ConfigError(_NOTHING.format(f"the run in {out} has lost no member"))
        told = {"gone": ", ".join(gone), "out": out, "sums": sums, "aside": aside(out, runs_aside(out) + 1)}
        print(_WARNING.format(**told), file=sys.stderr, flush=True)
        if not options.yes and not affirmed("Begin another job without them?"):
            raise UserError("nothing is begun anew: --again was not affirmed; type yes, or give --yes")
        set_aside(out, system.disk)
    finally:
        lock.release()


def _folder(options: NodeOptions) -> Path | None:
    return options.folder(existing_key(options).public) if key_file_exists(options) else options.out


def _of_summary(path: Path) -> tuple[tuple[str, ...], int]:
    """Returns who is gone, and after how many sums the job stopped; nobody if the file does not say so."""
    try:
        found = json.loads(path.read_bytes())
        return tuple(map(str, found.get("gone", ()))), int(found.get("generation", 0))
    except (OSError, ValueError, AttributeError, TypeError):
        return (), 0
