"""Runs a command in a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tests.e2e.named import main_of


def main(argv: Sequence[str]) -> int:
    """Runs a command; returns its exit status. `argv`: the folder, the command's module, its arguments."""
    folder, module, *words = argv
    os.chdir(folder)
    return main_of(module)(words)
