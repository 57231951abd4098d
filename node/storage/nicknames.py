"""The names that an owner gave to peers' keys. People read them in place of the first digits of a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from node.storage.regular_files import check_regular
from node.system.addresses import parse_key
from node.system.errors import ConfigError, reason, shown
from protocol.wire.ids import Key

DIGITS = 8
"""The digits of a key that people see if it has no name."""
MOST_NAMES = 1024
LONGEST_NAME = 40  # characters
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Nicknames:
    """Names by key (32 bytes). Nothing but texts depends on them."""

    names: dict[Key, str] = field(default_factory=dict)

    def take(self, names: Mapping[Key, str]) -> None:
        """Takes further names, of members who came later."""
        self.names.update(names)

    def of(self, digits: str) -> str:
        """Returns the name of the only named key that begins with these hex digits; empty if there is none.

        >>> mine = Nicknames({bytes.fromhex("ab" * 32): "ward b", bytes.fromhex("ac" * 32): "ward c"})
        >>> mine.of("abab"), mine.of("a"), mine.of("77")
        ('ward b', '', '')
        """
        found = [name for key, name in self.names.items() if key.hex().startswith(digits)]
        return found[0] if len(found) == 1 else ""

    def called(self, digits: str) -> str:
        """Returns the name of a key, or its first digits. `digits`: the key in hex, or how that begins."""
        return self.of(digits) or digits[:DIGITS]


NO_NICKNAMES = Nicknames()


def read_nicknames(path: Path) -> Nicknames:
    """Returns the names in `path`: `NAME = KEY` per line, KEY being 64 hex digits; `#` starts a comment.

    Raises ConfigError for a file that cannot be read or is too large, and for a wrong line.
    """
    named: dict[Key, str] = {}
    file = f"--names {shown(str(path))}"
    for number, line in enumerate(_text(path).splitlines(), 1):
        written = line.partition("#")[0].strip()
        if not written:
            continue
        name, _, digits = (part.strip() for part in written.rpartition("="))
        key, refused = parse_key(digits.strip('"')), f"{file}, line {number}: {shown(written)}"
        if key is None or not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
            raise ConfigError(
                f"{refused} is refused; allowed: NAME = KEY, with a name of 1 to {LONGEST_NAME} "
                "printable characters and the 64 hex digits of a public key, # for comments"
            )
        if key in named or name in named.values():
            raise ConfigError(
                f"{refused} names a key or uses a name for the second time; give each key one name of its own"
            )
        named[key] = name
    if len(named) > MOST_NAMES:
        raise ConfigError(f"{file} has {len(named)} names; allowed: at most {MOST_NAMES}")
    return Nicknames(named)


def _text(path: Path) -> str:
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise ConfigError(f"--names {shown(str(path))} cannot be read: {reason(error)}") from None
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"--names {shown(str(path))} is refused: more than {_MOST_BYTES >> 20} MiB")
    return text
