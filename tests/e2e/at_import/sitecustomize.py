"""Sends its own process a Ctrl-C when the module that the environment names is about to be imported."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType


class Interrupting:
    """A finder that finds nothing, but may interrupt."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == os.environ.get("INTERRUPTED_AT"):
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupting)
