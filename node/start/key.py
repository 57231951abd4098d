"""The key of a node that joins a swarm: made in its folder before anybody hears of it."""

from __future__ import annotations

from pathlib import Path

from node.storage.folder_lock import KEY
from node.storage.key_file import new_seed, read_key, write_key
from node.storage.whole_files import OWNERS_FOLDER
from node.system.errors import ConfigError, one_line, reason
from protocol.crypto.node_key import NodeKey


def made_key(folder: Path) -> NodeKey:
    """The key in a run's folder; both are made if they are not there. Raises ConfigError."""
    key = read_key(folder / KEY)
    if key is not None:
        return key
    try:
        folder.mkdir(mode=OWNERS_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {one_line(str(folder))} cannot be made: {reason(error)}") from error
    seed = new_seed()
    write_key(folder / KEY, seed)
    return NodeKey(seed)
