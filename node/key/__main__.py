"""`python -m node.key FILE`: prints a node's public key; makes a private key if there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.command import command
from node.cli.options import a_path, argument
from node.cli.sigint import begun
from node.storage.key_file import new_seed, read_key, write_key
from node.system.errors import ConfigError, reason
from protocol.crypto.node_key import NodeKey

_DESCRIPTION = """\
Prints the public key of the private key in FILE, for the --allow lists and --peers pins of the
others. If the file does not exist, it first gets a new key, readable by its owner only."""


@dataclass(frozen=True, kw_only=True)
class KeyOptions:
    """The file of the key."""

    file: Path = argument("such as runs/a/node.key, for a node with --out runs/a", a_path, metavar="FILE")


def _run(options: KeyOptions) -> int:
    key, folder = read_key(options.file), options.file.parent
    if key is None:
        seed = new_seed()
        begun()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the folder {folder} cannot be made: {reason(error)}") from error
        write_key(options.file, seed)
        key = NodeKey(seed)
    print(key.public.hex())
    return 0


main = command("node.key", KeyOptions, _DESCRIPTION, run=_run)
main.start(__name__)
