"""The tracker's known key: pinned by --tracker KEY@URL, or kept in --out since the tracker first answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.storage.regular_files import check_regular
from node.storage.whole_files import replace_file
from node.system.addresses import PeerAddress, parse_peer
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, reason
from protocol.wire.ids import Key

_MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class KnownTracker:
    """`pinned` is the key that the owner named; `file` keeps the keys of met trackers, one per line."""

    pinned: Key | None
    file: Path
    disk: Disk = DISK

    def key_at(self, endpoint: str) -> Key | None:
        """Returns the key that the tracker at `endpoint` must have; None at the first contact.

        Raises ConfigError for an unreadable or malformed file.
        """
        if self.pinned is not None:
            return self.pinned
        return next((known.key for known in self._known() if known.endpoint == endpoint), None)

    def keep(self, endpoint: str, key: Key) -> None:
        """Stores the key of the tracker at `endpoint`; it is on disk when this returns."""
        others = [known for known in self._known() if known.endpoint != endpoint]
        lines = [f"{known.key.hex()}@{known.endpoint}" for known in others if known.key is not None]
        try:
            replace_file(
                self.file,
                ("\n".join([*lines, f"{key.hex()}@{endpoint}", ""]).encode("ascii"),),
                durable=True,
                disk=self.disk,
            )
        except OSError as error:
            raise ConfigError(f"the file {self.file} cannot be written: {reason(error)}") from error

    def changed(self, endpoint: str, text: str) -> str:
        """Returns the line about a tracker with another key: what was found, and what to do."""
        where = "correct the KEY of --tracker" if self.pinned is not None else f"delete {self.file}"
        return (
            f"the tracker at {endpoint} is another one than before: {text}; find out who answers there; if "
            f"it was given a new key on purpose, {where}"
        )

    def _known(self) -> list[PeerAddress]:
        try:
            check_regular(self.file)
            with self.file.open("rb") as file:
                written = file.read(_MOST_BYTES).decode("ascii", "replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"the file {self.file} cannot be read: {reason(error)}") from error
        known = [parse_peer(line, f"the file {self.file}") for line in written.split()]
        if any(tracker.key is None for tracker in known):
            raise ConfigError(
                f"the file {self.file} does not hold keys of trackers: KEY@HOST:PORT; delete it, and the key "
                "that the tracker shows next is kept"
            )
        return known
