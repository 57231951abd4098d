"""A command, run in a folder."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """`argv`: the folder, the command's module, its arguments; its exit status."""
    folder, module, *arguments = argv
    os.chdir(folder)
    status: int = importlib.import_module(module).main(arguments)
    return status
