"""Goes on where a folder stands: a closed list is learned with; else the inviter or the joiner waits on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from node.invitation.kept import kept_inviting
from node.invitation.terminal import Terminal
from node.start.inviter_window import keep_open
from node.start.joiner_window import keep_waiting
from node.start.serving import learn_and_serve
from node.storage.swarm_file import SWARM


def start(folder: Path, more: Sequence[str], *, yes: bool) -> int:
    """Returns the exit status. `more`: options of a node. Raises UserError."""
    if (folder / SWARM).exists():
        return learn_and_serve(folder, more)
    terminal = Terminal(yes)
    terminal.check()
    return keep_waiting(folder, terminal) if kept_inviting(folder) is None else keep_open(folder, terminal)
