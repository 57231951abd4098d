"""Runs a command in a folder, with some variables of its environment."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tests.e2e.named import main_of


def main(argv: Sequence[str]) -> int:
    """Runs a command; returns its exit status.

    `argv`: the folder, any NAME=VALUE for the environment, the command's module, its arguments.
    """
    folder, *words = argv
    os.chdir(folder)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value
    return main_of(words[0])(words[1:])
