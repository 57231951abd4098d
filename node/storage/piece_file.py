"""The pieces that a session keeps for its certificate: one file of records of owner, index and payload.

(One file per part costs the system several times as much as the writing: a millisecond or two of a masked
round.) The last complete record of a part is valid. If the process was killed while it wrote, or the disk was
full, the torn end is cut off before anything is added.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from node.storage.whole_files import own_file
from protocol.wire.masked_messages import TotalPiece
from protocol.wire.messages import Key, Sum

_HEAD = struct.Struct("<32sQQ")
_Places = dict[tuple[Key, int], tuple[int, int]]
"""The offset and length in bytes of each payload, by owner and index."""


class PieceFile:
    """Pieces of one session's partial sums or total. Only one thread at a time may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: _Places | None = None
        """None before the file was scanned."""

    def add(self, parts: Iterable[Sum | TotalPiece]) -> None:
        """Writes the parts that are not stored yet; the last part of an owner and index is the valid one."""
        earlier = self._looked_through()
        places, self._places = dict(earlier), None
        with own_file(self._path, "ab") as file:
            for part in parts:
                if self._payload(earlier, part.owner, part.index) == part.payload:
                    continue
                file.write(_HEAD.pack(part.owner, part.index, len(part.payload)))
                places[part.owner, part.index] = file.tell(), len(part.payload)
                file.write(part.payload)
        self._places = places

    def get(self, owner: Key, index: int) -> bytes | None:
        """Returns a payload; None if there is none or it is empty."""
        self._places = self._looked_through()
        return self._payload(self._places, owner, index)

    def _payload(self, places: _Places, owner: Key, index: int) -> bytes | None:
        start, length = places.get((owner, index), (0, 0))
        if not length:
            return None
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(length)

    def _looked_through(self) -> _Places:
        if self._places is not None:
            return self._places
        places: _Places = {}
        if not self._path.exists():
            return places
        with self._path.open("r+b") as file:
            size, end = os.fstat(file.fileno()).st_size, 0
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                owner, index, length = _HEAD.unpack(head)
                if end + _HEAD.size + length > size:
                    break
                places[owner, index] = end + _HEAD.size, length
                end = file.seek(length, os.SEEK_CUR)
            file.truncate(end)
        return places
