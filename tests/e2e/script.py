"""A user's script, run as `python PATH` runs it, from a process that has torch in memory already."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """`argv`: the script and the folder that it is run in; the exit status, if it comes to its end."""
    path, folder = argv
    os.chdir(folder)
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120 - as the interpreter does
    runpy.run_path(path, run_name="__main__")
    return 0
