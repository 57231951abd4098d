"""Runs a user's script as `python PATH` does, from a process that has torch in memory."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Runs a script to its end; returns the exit status. `argv`: the script and its working folder."""
    path, folder = argv
    os.chdir(folder)
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120 - as the interpreter does
    runpy.run_path(path, run_name="__main__")
    return 0
