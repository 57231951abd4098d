"""Sends this process SIGINT when it is about to import the module that the environment names."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType


class Interrupting:
    """A module finder that finds nothing but may interrupt the process."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == os.environ.get("INTERRUPTED_AT"):
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupting)
