"""The allow-list: the public keys with which this node learns."""

from __future__ import annotations

from pathlib import Path

from node.storage.regular_files import check_regular
from node.system.addresses import parse_key
from node.system.errors import ConfigError, reason, shown


def read_allow_list(path: Path) -> frozenset[bytes]:
    """Returns the public keys (32 bytes each) in `path`: 64 hex digits per line; `#` starts a comment.

    Raises ConfigError if the file cannot be read, a line is no key, or there is no key.
    """
    try:
        check_regular(path)
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"allow-list {shown(str(path))} cannot be read: {reason(error)}") from None
    written = [(number, line.partition("#")[0].strip()) for number, line in enumerate(lines, 1)]
    keys = frozenset(_key(path, number, text) for number, text in written if text)
    if not keys:
        raise ConfigError(f"allow-list {shown(str(path))} names no key; allowed: 64 hex digits a line")
    return keys


def _key(path: Path, number: int, text: str) -> bytes:
    """Returns the key on line `number`. Raises ConfigError if the line is no key."""
    key = parse_key(text)
    if key is None:
        raise ConfigError(
            f"allow-list {shown(str(path))}, line {number}: {shown(text)} is no key; "
            "allowed: 64 hex digits, # for comments"
        )
    return key
