"""Secret files that only their owner can read, above all a node's private key: 32 random bytes in hex.

One node, or tracker, at a time uses a key: it holds the lock on the key's file. A program that only reads a
key, such as `node.check`, needs no lock.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from node.storage.locks import lock
from node.storage.regular_files import check_regular
from node.storage.whole_files import new_file
from node.system.addresses import parse_key
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, reason
from node.system.system import SYSTEM, Entropy
from protocol.crypto.node_key import KEY_BYTES, NodeKey

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def new_seed(entropy: Entropy = SYSTEM.entropy) -> bytes:
    """Returns the secret of a new key, 32 bytes from the system's CSPRNG."""
    return entropy(KEY_BYTES)


def read_key(path: Path) -> NodeKey | None:
    """Returns the key in a file; None if there is no file.

    Raises ConfigError if the file does not hold a key or others can read it.
    """
    written = read_secret(path, "key", 2 * KEY_BYTES)
    if written is None:
        return None
    seed = parse_key(written)
    if seed is None:
        raise ConfigError(f"the key file {path} does not hold a key: 64 hex digits; name another with --key")
    return NodeKey(seed)


def write_key(path: Path, seed: bytes, disk: Disk = DISK) -> None:
    """Writes a new key, mode 0600. Raises ConfigError if the file exists or cannot be written."""
    write_secret(path, "key", seed.hex(), disk)


@contextmanager
def own_key(path: Path) -> Iterator[NodeKey]:
    """Yields the key in a tracker's file, creating it if there is none; raises as `held` does."""
    if read_key(path) is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the folder {path.parent} cannot be made: {reason(error)}") from error
        write_key(path, new_seed())
    with held(path, "tracker"):
        key = read_key(path)
        if key is None:
            raise ConfigError(f"the key file {path} is gone; start again")
        yield key


@contextmanager
def held(path: Path, kind: str) -> Iterator[None]:
    """Holds the lock on a key's file, whatever name leads to it, for a `kind` of program.

    Raises InUse if another process holds it, ConfigError if the file cannot be opened.
    """
    try:
        # Some network file systems lock only what may be written.
        file = path.open("r+b" if os.access(path, os.W_OK) else "rb")
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be read: {reason(error)}") from error
    with file:
        lock(file, f"the key file {path}", kind, "--key")
        yield


def read_secret(path: Path, what: str, digits: int) -> str | None:
    """Returns the line in a secret file, read up to `digits` characters and a line end; None without a file.

    Raises ConfigError, which calls it the `what` file, if it cannot be read or if others can read it.
    """
    try:
        check_regular(path)
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            written = file.read(digits + 2)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"the {what} file {path} cannot be read: {reason(error)}") from error
    if mode & _OTHERS:
        raise ConfigError(
            f"the {what} file {path} can be read by others (mode {mode:04o}); run: chmod 600 {path}"
        )
    return written.decode("ascii", "replace").strip()


def write_secret(path: Path, what: str, line: str, disk: Disk = DISK) -> None:
    """Writes a new file, mode 0600, durably. Raises ConfigError if the file exists or cannot be written."""
    try:
        new_file(path, f"{line}\n".encode(), disk)
    except OSError as error:  # new_file leaves nothing behind: half a key would block the next start
        raise ConfigError(f"the {what} file {path} cannot be written: {reason(error)}") from error
