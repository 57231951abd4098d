"""The line in which a command says what it starts, before it loads slow imports."""

from __future__ import annotations


def after_opening(said: str) -> str:
    """Returns the output of a command without that line, if there is one."""
    first, _, rest = said.partition("\n")
    return rest if first.startswith("starting: ") else said
