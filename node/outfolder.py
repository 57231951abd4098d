"""The folder of a run: made only when everything else was found good, and used by one node at a time."""

from __future__ import annotations

import fcntl
import shutil
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from node.errors import ConfigError, UserError, reason

KEY = "node.key"
HISTORY = "history.jsonl"


class Lock:
    """Held while a node uses its folder; the system lets go of it when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Make the folder and take it. UserError if another node has it."""
        self._folder = folder
        try:
            self._made = not folder.exists()
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

    def undo(self) -> None:
        """The start failed: a folder that was made for it is removed, but for the key.

        Others may have been told that key, to let it in. Nothing is undone once a round has ended.
        """
        self.release()
        if not self._made or (self._folder / HISTORY).exists():
            return
        for path in self._folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != KEY:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()
