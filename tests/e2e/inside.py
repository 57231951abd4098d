"""A command, run in a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tests.e2e.named import main_of


def main(argv: Sequence[str]) -> int:
    """`argv`: the folder, the command's module, its arguments; its exit status."""
    folder, module, *arguments = argv
    os.chdir(folder)
    return main_of(module)(arguments)
