"""Why no group forms, in words for the node's owner, with what the owner can do about it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from protocol.swarm.votes.obstacle import Obstacle


def waiting_text(found: Obstacle | None, out: Path) -> str:
    """Returns the obstacle in one line; empty if there is none. `out` is the node's folder."""
    if found is None:
        return ""
    return f"{found.text}; if they are gone for good: {command(out)}" if found.can_be_gone else found.text


def command(out: Path) -> str:
    """Returns the command that declares electors gone for good."""
    return f"python -m node.rejoin --out {shlex.quote(str(out))}"


def without_text(generation: int, names: Sequence[str]) -> str:
    """Returns the warning that a model was agreed without some electors, at the cost of safety."""
    return (
        f"the model of generation {generation} was agreed WITHOUT {', '.join(names)}, who count as gone for "
        "good, by the word of all owners in the group or by aggregation.amnesty_s: if they are not, another "
        "model may grow beside this one, and one of the two is lost"
    )
