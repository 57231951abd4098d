"""The folder of a run: its lock, which admits one node at a time, and the check that its files are complete.

A node creates the folder only after all other checks, and its files in this order, so that a kill at any
moment leaves a folder that can start again:

    lock --> key --> state.db (whole, at once) --> vectors, certificates --> token --> models, history, ...

So the files after `state.db` never exist without it, unless somebody lost a file.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

from node.storage.locks import lock
from node.storage.spend_file import SUFFIX, spend_path
from node.storage.whole_files import OWNERS_FOLDER, own_file, sync, tidy
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, UserError, reason

KEY = "node.key"
HISTORY = "history.jsonl"
STATE = "state.db"
MODELS = ("model.safetensors", "private.safetensors")
LOCK = "lock"
SUMMARY = "summary.json"
VIEW = "view.json"
TRACKER = "tracker.pub"
PAGE_TOKEN = "page.token"  # noqa: S105 - the name of a file
_NEEDS_STATE = (HISTORY, *MODELS, SUMMARY, "vectors", "certificates", f"{STATE}-wal", KEY + SUFFIX)
"""Files that a node writes only beside a `state.db`. A key, a token and foreign files do not need one."""
_OWN = (LOCK, STATE, f"{STATE}-wal", HISTORY, *MODELS, SUMMARY, VIEW, TRACKER)
_FOLDERS = ("vectors", "certificates")
_WRITTEN_WHOLE = (KEY, PAGE_TOKEN, STATE, *MODELS, SUMMARY, VIEW, TRACKER)


class Lock:
    """The lock that a node holds on its folder. The system releases it at any end of the process."""

    def __init__(self, folder: Path) -> None:
        """Creates the folder and locks it.

        Raises InUse if another node holds the lock, ConfigError if the folder cannot be used.
        """
        self.folder = folder
        try:
            self._may_undo = not folder.exists()
            folder.mkdir(mode=OWNERS_FOLDER, parents=True, exist_ok=True)
            self._file = own_file(folder / LOCK, "ab")
        except OSError as error:
            raise ConfigError(f"--out {folder} cannot be used: {reason(error)}") from error
        try:
            lock(self._file, f"--out {folder}", "node", "--out")
        except UserError:
            self._file.close()
            raise

    def release(self) -> None:
        """Releases the lock."""
        self._file.close()

    def keep(self) -> None:
        """Keeps the folder from now on: something was offered, and the folder records what was spent."""
        self._may_undo = False

    def undo(self) -> None:
        """After a failed start, removes the folder that was created for it, except for the key.

        Other owners may already have put that key on their allow-lists. Once something was offered or a round
        has ended, nothing is removed.
        """
        self.release()
        if not self._may_undo or (self.folder / HISTORY).exists():
            return
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != KEY:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def aside(out: Path, number: int) -> Path:
    """Returns where in a folder a run is that was set aside (node.storage.runs_aside), counted from 1."""
    return out / f"unfinished-{number}"


def runs_aside(out: Path) -> int:
    """Returns how many runs of a folder were set aside."""
    return next(number for number in count() if not (aside(out, number + 1) / STATE).exists())


def check_folder(out: Path, key_file: Path, *, has_key: bool) -> None:
    """Raises ConfigError if a run's folder has files but lacks the key or `state.db` that they belong to.

    A new folder passes. `State` checks the contents and the owner of `state.db`.
    """
    has_state = _is_there(out / STATE)
    newest = aside(out, runs_aside(out))
    is_begun_anew, is_half_aside = (newest / STATE).exists(), not (newest / SUMMARY).exists()
    kept = () if not is_begun_anew else _NEEDS_STATE if is_half_aside else (KEY + SUFFIX,)
    others = [name for name in _NEEDS_STATE if name not in kept and _is_there(out / name)]
    if others and not has_state:
        raise ConfigError(
            f"--out {out} has {', '.join(others)}, but its {STATE} is missing, which knows what was spent: "
            "put the newest copy of it back, or give another --out (docs/operating.md, Backup)"
        )
    if has_key:
        return
    if has_state:
        raise ConfigError(
            f"--out {out} has a {STATE}, but the key that it belongs to is missing, {key_file}: put that key "
            "back, or give another --out"
        )
    spent = spend_path(key_file)
    if _is_there(spent):
        raise ConfigError(
            f"{spent} tells what a key has spent, but that key is missing, {key_file}: put it back, or name "
            "another --key"
        )


def tidy_folder(out: Path, key_file: Path, disk: Disk = DISK) -> None:
    """Removes half-written files that a kill left, and the rights of others that an earlier version left.

    The caller holds the lock and has read nothing yet.
    """
    tidy(out, _WRITTEN_WHOLE)
    if _is_there(out / STATE):
        kept = (path for folder in _FOLDERS for path in (out / folder).glob("*"))
        for path in (out, *(out / name for name in (*_OWN, *_FOLDERS)), *kept):
            _keep_for_owner(path)
    with suppress(OSError):  # this user may have only read access to a folder of keys
        tidy(key_file.parent, (key_file.name,))
    with suppress(FileNotFoundError):
        _cut_off_torn_line(out / HISTORY, disk)
    sync(out, disk)  # a kill may have come after a file got its name and before that name was on disk


def _keep_for_owner(path: Path) -> None:
    """Takes the rights of others from a file or folder; a folder that all users share (sticky) stays so."""
    with suppress(OSError):  # it is not there, or another user's
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and not mode & stat.S_ISVTX:
            path.chmod(mode & stat.S_IRWXU)


def _cut_off_torn_line(path: Path, disk: Disk) -> None:
    """Removes a last line that a kill cut off; the node writes it again, from `state.db`."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
            end = lines.rfind(b"\n") + 1
        if end != size:
            file.truncate(end)
            disk.sync(file.fileno())


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)
