"""Files of a run's folder for its owner alone: written whole and durably, and read up to a limit."""

from __future__ import annotations

from pathlib import Path

from node.storage.regular_files import check_regular
from node.storage.whole_files import OWNERS_FOLDER, replace_file
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, one_line, reason
from protocol.errors import RemoteProtocolError
from protocol.wire.dialect import Dialect, Record


def keep_file(path: Path, content: bytes, disk: Disk = DISK) -> None:
    """Writes a file, durably, in a folder that is made if it is not there. Raises ConfigError."""
    try:
        path.parent.mkdir(mode=OWNERS_FOLDER, parents=True, exist_ok=True)
        replace_file(path, (content,), durable=True, disk=disk)
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be written: {reason(error)}") from error


def read_limited(path: Path, most: int) -> bytes | None:
    """The content of a file of at most so many bytes; None if it is not there. Raises ConfigError."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be read: {reason(error)}") from error
    if len(content) > most:
        raise ConfigError(f"{one_line(str(path))} is refused: it has more than {most} bytes")
    return content


def read_record(path: Path, dialect: Dialect[Record], most: int) -> Record | None:
    """The record in a file; None if the file is not there. Raises ConfigError."""
    content = read_limited(path, most)
    try:
        return None if content is None else dialect.read(content)
    except RemoteProtocolError as error:
        raise ConfigError(
            f"{one_line(str(path))} is damaged ({error}): delete it, and begin again"
        ) from error
