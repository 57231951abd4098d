"""Reads a node's rounds from its history.jsonl as the file grows."""

from __future__ import annotations

from pathlib import Path

from node.runtime.record.figures import Record

MAX_ROUNDS = 5000
_LINE_BYTES = 1600
"""More bytes than a line of history takes; the first read covers at most MAX_ROUNDS times as many."""


class Tail:
    """Reads the lines appended since the last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    @property
    def grown(self) -> bool:
        """Whether the file has grown since the last `read`."""
        return self._size > self._offset

    def read(self, most_bytes: int | None = None) -> list[Record]:
        """Returns the rounds of new complete lines; one that is still being written waits for the next call.

        The first call reads at most the last `most_bytes`, if given. It waits for the disk, so do not call it
        on the event loop.
        """
        if not self.grown:
            return []
        skipped = 0 if self._offset or most_bytes is None else max(0, self._size - most_bytes)
        with self._path.open("rb") as file:
            file.seek(self._offset + skipped)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += skipped + len(whole)
        lines = whole.splitlines()[1 if skipped else 0 :]  # the first one begins midway
        return [record for line in lines if (record := Record.from_line(line)) is not None]

    @property
    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


class Rounds:
    """The last MAX_ROUNDS rounds of a history."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self.latest: tuple[Record, ...] = ()
        """The rounds as of the last `read`."""

    @property
    def grown(self) -> bool:
        """Whether the file has grown since the last `read`."""
        return self._tail.grown

    def read(self) -> tuple[Record, ...]:
        """Returns the rounds so far. It waits for the disk, so do not call it on the event loop."""
        if found := self._tail.read(MAX_ROUNDS * _LINE_BYTES):
            self.latest = (*self.latest, *found)[-MAX_ROUNDS:]
        return self.latest
