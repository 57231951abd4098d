"""The folder of a run: what belongs together in it, and that one node at a time uses it.

It is made only when everything else was found good, and in this order, so that a kill at any moment leaves a
folder that starts again:

    lock --> key --> state.db (whole, at once) --> vectors, certificates --> token --> models, history, ...

What comes after `state.db` is therefore never there without it, unless somebody has lost something.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from node.errors import ConfigError, UserError, reason
from node.storage.spend_file import SUFFIX, spend_path
from node.storage.whole_files import sync, tidy

KEY = "node.key"
HISTORY = "history.jsonl"
STATE = "state.db"
MODELS = ("model.safetensors", "private.safetensors")
SUMMARY = "summary.json"
PAGE_TOKEN = "page.token"  # noqa: S105 - the name of a file
_NEEDS_STATE = (HISTORY, *MODELS, SUMMARY, "vectors", "certificates", f"{STATE}-wal", KEY + SUFFIX)
"""What a node writes only where there is a `state.db`. A key, a token and files of others need none."""
_WRITTEN_WHOLE = (KEY, PAGE_TOKEN, STATE, *MODELS, SUMMARY)


class Lock:
    """Held while a node uses its folder; the system lets go of it when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Make the folder and take it. UserError if another node has it."""
        self.folder = folder
        try:
            self._may_undo = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            self._file: TextIOWrapper = (folder / "lock").open("a")
        except OSError as error:
            raise ConfigError(f"--out {folder} can not be used: {reason(error)}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise UserError(
                f"--out {folder} is in use by another node: end that one, or give another --out"
            ) from error

    def release(self) -> None:
        """Let another node have it."""
        self._file.close()

    def keep(self) -> None:
        """Something was offered: the folder knows what was spent, and stays."""
        self._may_undo = False

    def undo(self) -> None:
        """The start failed: a folder that was made for it is removed, but for the key.

        Others may have been told that key, to let it in. Nothing is undone once something was offered, or a
        round has ended.
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


def check_folder(out: Path, key_file: Path, *, has_key: bool) -> None:
    """ConfigError where something of a run is there without what it belongs to; a new folder is fine.

    What is inside `state.db`, and whose it is, `State` looks at.
    """
    has_state = _is_there(out / STATE)
    others = [name for name in _NEEDS_STATE if _is_there(out / name)]
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


def tidy_folder(out: Path, key_file: Path) -> None:
    """Take away what a kill left half-written. For who holds the lock, before anything is read."""
    tidy(out, _WRITTEN_WHOLE)
    with suppress(OSError):  # a folder of keys may be one that this user can only read
        tidy(key_file.parent, (key_file.name,))
    with suppress(FileNotFoundError):
        _cut_off_torn_line(out / HISTORY)
    sync(out)  # killed after a file got its name, and before that name was on disk


def _cut_off_torn_line(path: Path) -> None:
    """A last line without an end was cut off by a kill; what it told is written again, from `state.db`."""
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
            end = lines.rfind(b"\n") + 1
        if end != size:
            file.truncate(end)
            os.fsync(file.fileno())


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)
