"""The folder of a run: it belongs to one configuration, and one process writes to it at a time.

`configuration.json` is written first. It distinguishes the folder of an interrupted run from any other
folder, and only the same run may resume there.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.system.errors import ConfigError, UserError
from scenarios.frame.spec import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CONFIGURATION = "configuration.json"
LOCK = "lock"


def fresh_folder(name: str, now: datetime, parent: Path = Path("runs")) -> Path:
    """A path for this run that does not exist yet: `runs/<name>-<time>`."""
    stem = f"{name}-{now:%Y%m%d-%H%M%S}"
    count = 1
    folder = parent / stem
    while folder.exists():
        count += 1
        folder = parent / f"{stem}-{count}"
    return folder


@contextmanager
def claimed(folder: Path, scenario: str, configuration: Json) -> Iterator[None]:
    """Lock `folder` for one run of `scenario`. It is a new folder, or the one of the same run, to resume.

    Raises ConfigError for a folder with other contents, UserError for one in use or not writable.
    """
    check(folder, scenario, configuration)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(
            f"--out {folder}: cannot be written ({error.strerror}); give another folder"
        ) from error
    try:
        _lock(lock, folder)
        write_json(folder / CONFIGURATION, {"scenario": scenario, "configuration": configuration})
        yield
    finally:
        os.close(lock)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UserError(
            f"--out {folder}: in use by another run; wait for it or give another folder"
        ) from error


def check(folder: Path, scenario: str, configuration: Json) -> None:
    """Raise ConfigError unless `folder` is absent, empty, or a folder of the same run."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"--out {folder}: is not a folder; give a new or an empty one")
    if not any(folder.iterdir()):
        return
    record = _record(folder)
    if record["scenario"] != scenario:
        other = record["scenario"]
        raise ConfigError(
            f"--out {folder}: holds a run of scenario {other}, not {scenario}; give another folder"
        )
    asked = json.loads(json.dumps(configuration))  # as in a file: tuples become lists, keys become text
    differing = first_difference(record["configuration"], asked)
    if differing is not None:
        raise ConfigError(f"--out {folder}: holds a run with another {differing}; give another folder")


def _record(folder: Path) -> dict[str, Any]:
    path = folder / CONFIGURATION
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(
            f"--out {folder}: not empty and no scenario's folder; give a new or an empty one"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--out {folder}: {CONFIGURATION} cannot be read ({error}); give another folder"
        ) from None
    if not isinstance(record, dict) or not {"scenario", "configuration"} <= record.keys():
        raise ConfigError(f"--out {folder}: {CONFIGURATION} is no scenario's; give another folder")
    return record


def first_difference(there: object, here: object, key: str = "") -> str | None:
    """The first key (dotted) at which two JSON values differ, with both values; None if they are equal."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in sorted({*there, *here}):
            found = first_difference(there.get(name), here.get(name), f"{key}.{name}" if key else name)
            if found is not None:
                return found
        return None
    return None if there == here else f"{key} ({there!r}, not {here!r})"


def write_json(path: Path, value: Json) -> None:
    """Write `value` to `path`, replacing it atomically, so that no reader sees half a file."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_value(path: Path, value: DataclassInstance) -> None:
    """Write a dataclass to `path` as JSON, in a folder that is made if needed; see write_json."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(value))


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` (UTF-8), replacing it atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, replacing it atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
