"""A question to the owner that only `yes` affirms."""

from __future__ import annotations

import sys


def affirmed(question: str) -> bool:
    """Asks at the terminal; anything but `yes` is a no, and so is that there is no terminal."""
    if not sys.stdin.isatty():
        return False
    try:
        return input(f"{question} Type yes: ").strip() == "yes"
    except EOFError:
        return False
