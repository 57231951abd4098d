"""The word of a relay, in a file beside its key that only its owner can read."""

from __future__ import annotations

from pathlib import Path

from node.storage.key_file import read_secret, write_secret
from node.system.addresses import split_endpoint
from node.system.errors import ConfigError
from node.system.system import SYSTEM, System
from protocol.relay.word import WORD_BYTES, make_word, read_word

_LETTERS = 9
HTTPS_PORT = 443


def file_beside(key: Path) -> Path:
    """Returns the path of the file beside `key`."""
    return key.with_name(f"{key.name}.word")


def own_word(path: Path, system: System = SYSTEM) -> str:
    """Returns the word in a file, which the first start creates, mode 0600.

    Raises ConfigError if the file is unusable or does not hold a word.
    """
    kept = read_secret(path, "word", _LETTERS)
    if kept is None:
        kept = make_word(system.entropy(WORD_BYTES))
        write_secret(path, "word", kept, system.disk)
    if read_word(kept) is None:
        raise ConfigError(
            f"the word file {path} does not hold a relay's word: delete it, and a new one is made, "
            "under which all swarms must be invited again"
        )
    return kept


def address_with_word(endpoint: str, word: str) -> str:
    """Returns the address that people get who may invite: HOST[:PORT]#word."""
    host, port = split_endpoint(endpoint)
    named = f"[{host}]" if ":" in host else host
    return f"{named if port == HTTPS_PORT else endpoint}#{word}"
