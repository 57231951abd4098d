"""The electors that a tracker named for a first model, once for each swarm, in a file beside its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from node.storage.regular_files import check_regular
from node.storage.whole_files import replace_file
from node.system.errors import ConfigError, UserError, reason
from protocol.wire.messages import Key

Swarm = tuple[str, bytes]


def file_beside(key: Path) -> Path:
    """Returns the path of the file beside `key`."""
    return key.with_name(f"{key.name}.electors")


def read_named(path: Path) -> dict[Swarm, tuple[Key, ...]]:
    """Returns the electors named so far, by task and parameters; empty without a file.

    Raises ConfigError for an unreadable or malformed file.
    """
    try:
        check_regular(path)
        lines = path.read_text("ascii").splitlines()
        found = [json.loads(line) for line in lines]
        return {
            (each["task"], bytes.fromhex(each["parameters"])): tuple(map(bytes.fromhex, each["electors"]))
            for each in found
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"the file {path} cannot be read: {reason(error)}") from error
    except (ValueError, TypeError, LookupError) as error:
        raise ConfigError(
            f"the file {path} does not say whom this tracker named as electors: put the newest copy back; "
            "without one, no swarm that it introduced may begin again from its first model"
        ) from error


def write_named(path: Path, named: Mapping[Swarm, tuple[Key, ...]]) -> None:
    """Stores the named electors; they are on disk when this returns. Raises UserError if that fails."""
    lines = [
        json.dumps(
            {"task": task, "parameters": parameters.hex(), "electors": [key.hex() for key in electors]}
        )
        for (task, parameters), electors in sorted(named.items())
    ]
    try:
        replace_file(path, [("\n".join(lines) + "\n").encode("ascii")], durable=True)
    except OSError as error:
        raise UserError(f"the file {path} cannot be written: {reason(error)}") from error
