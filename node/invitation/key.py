"""The key of a node in a swarm by invitation: made before anybody hears of it, in a folder of its own.

Beside a key stands what it has spent. The agreement and the run, each with a state of its own, both spend by
this key, so neither has it in its folder.
"""

from __future__ import annotations

from pathlib import Path

from node.storage.folder_lock import KEY
from node.storage.key_file import new_seed, read_key, write_key
from node.storage.whole_files import OWNERS_FOLDER
from node.system.errors import ConfigError, one_line, reason
from protocol.crypto.node_key import NodeKey

_FOLDER = "key"


def key_file(folder: Path) -> Path:
    """Where the key of a run's folder is."""
    return folder / _FOLDER / KEY


def own_key(folder: Path) -> NodeKey:
    """The key of a run's folder. Raises ConfigError."""
    path = key_file(folder)
    key = read_key(path)
    if key is None:
        raise ConfigError(f"the key file {one_line(str(path))} is gone: put a copy of it back, or join again")
    return key


def made_key(folder: Path) -> NodeKey:
    """The key of a run's folder; both are made if they are not there. Raises ConfigError."""
    path = key_file(folder)
    key = read_key(path)
    if key is not None:
        return key
    try:
        path.parent.mkdir(mode=OWNERS_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {one_line(str(path.parent))} cannot be made: {reason(error)}"
        ) from error
    seed = new_seed()
    write_key(path, seed)
    return NodeKey(seed)
