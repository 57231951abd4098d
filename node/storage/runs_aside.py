"""Runs that stopped unfinished are set aside in their folder, so that another begins there.

    F/state.db, vectors, history.jsonl, ..., summary.json  -->  F/unfinished-1/

The state goes first: from then on the folder is of the next run. The summary goes last: a kill between them
leaves it in place, and the rest follows at the next start.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from node.storage.folder_lock import HISTORY, MODELS, STATE, SUMMARY, VIEW, aside, runs_aside
from node.storage.whole_files import OWNERS_FOLDER, sync
from node.system.disk import DISK, Disk

_MOVED = ("vectors", "certificates", HISTORY, *MODELS, VIEW, SUMMARY)


def set_aside(out: Path, disk: Disk = DISK) -> Path:
    """Sets the run of a folder aside; returns where it is. The caller holds the folder's lock."""
    with closing(sqlite3.connect(out / STATE)) as database:  # what its journal still has goes along
        database.execute("pragma wal_checkpoint(truncate)")
    place = aside(out, runs_aside(out) + 1)
    place.mkdir(mode=OWNERS_FOLDER, exist_ok=True)
    (out / STATE).rename(place / STATE)
    sync(place, disk)
    finish_setting_aside(out, disk)
    return place


def finish_setting_aside(out: Path, disk: Disk = DISK) -> None:
    """Moves what a kill has left of a run that was set aside. The caller holds the folder's lock."""
    place = aside(out, runs_aside(out))
    if not (place / STATE).exists() or (place / SUMMARY).exists():
        return
    for name in _MOVED:
        if (out / name).exists():
            (out / name).rename(place / name)
    sync(place, disk)
    sync(out, disk)
