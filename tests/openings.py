"""The line with which a command says what it begins, before it loads what that takes."""

from __future__ import annotations


def after_opening(said: str) -> str:
    """What a command printed besides that line, if there is one."""
    first, _, rest = said.partition("\n")
    return rest if first.startswith("starting: ") else said
