"""Why no group forms, in words for the node's owner, with what the owner can do about it."""

from __future__ import annotations

import shlex
from collections.abc import Container, Sequence
from pathlib import Path

from node.storage.nicknames import Nicknames
from protocol.actions import Elector
from protocol.swarm.meeting.patience import PATIENT_S, PatienceLeft
from protocol.swarm.votes.obstacle import Obstacle, Stage, Whose
from protocol.wire.ids import Key

MAX_NAMED = 6
_WHOSE = {
    Whose.NOBODY: "",
    Whose.NAMED: "who were named for the first model",
    Whose.LAST: "who made the last model",
    Whose.STRONG: "who made the last model with a quorum",
    Whose.OTHERS: "of another version of the protocol",
}
_THEN = {
    Stage.NEVER: "nothing goes on without them (aggregation.weak = false)",
    Stage.ENDLESS: "it waits for them as long as it takes (--wait forever), and no round is spent",
    Stage.WEAK: "until they are back, models are agreed without them",
    Stage.WILLING: "goes on without them as soon as the others here have waited as long",
    Stage.VERSIONS: (
        "no group can form without them: upgrade all nodes of the swarm together; no round is spent meanwhile"
    ),
    Stage.COHORT: (
        "all sums have the members of the first one: when this node has waited (--wait), the job stops, "
        "keeps what was agreed, and goes on once all are started again"
    ),
    Stage.COHORT_ENDLESS: (
        "all sums have the members of the first one, and this node waits for them as long as it takes "
        "(--wait forever); if they are gone for good: Ctrl-C, and --again at all that are left"
    ),
    Stage.SAID: "a model is made without them once all nodes of a group count them so",
}
_COHORT = (Stage.COHORT, Stage.COHORT_ENDLESS)
_HELPLESS = (Stage.TOO_FEW, Stage.VERSIONS, *_COHORT, Stage.SAID)
"""What is not overcome by declaring peers gone for good."""
_HAND_OVER = "; if they have ended their run, one of them starts again, and gives this node the last model"


def waiting_text(found: Obstacle | None, nicknames: Nicknames, out: Path | None) -> str:
    """Returns the obstacle in one line; empty if there is none. `out`: the node's folder, for advice."""
    if found is None:
        return ""
    is_helped = bool(found.absent) and found.stage not in _HELPLESS
    advice = f"; if they are gone for good: {command(out)}" if is_helped and out is not None else ""
    if found.stage is Stage.SAID:
        names = ", ".join(_named(one, found, nicknames) for one in found.absent)
        return f"{names} count as gone for good here; {_then(found)}"
    return f"waiting for {who(found, nicknames)}; {_then(found)}{advice}"


def nameless(found: Obstacle | None) -> str:
    """Returns the same line without any peer's name, and without advice: fit for anybody who asks."""
    if found is None:
        return ""
    count = len(found.absent)
    if found.stage is Stage.SAID:
        return f"{_peers(count)} count as gone for good here; {_then(found)}"
    if not count:
        return f"waiting for {_anybody(found)}; {_then(found)}"
    of = f" of {count}" if count > 1 else ""
    return f"waiting for {_peers(found.missing, of)}, {_WHOSE[found.whose]}; {_then(found)}"


def who(found: Obstacle, nicknames: Nicknames) -> str:
    """Returns whom the node waits for."""
    return f"{absent(found, nicknames)}, {_WHOSE[found.whose]}" if found.absent else _anybody(found)


def absent(found: Obstacle, nicknames: Nicknames) -> str:
    """Returns the missing electors, and how many of them would suffice."""
    shown = ", ".join(_named(one, found, nicknames) for one in found.absent[:MAX_NAMED])
    rest = len(found.absent) - MAX_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    some = f"{found.missing} of: " if 0 < found.missing < len(found.absent) else ""
    tie = f" ({_named(found.tie[0], found, nicknames)} among them, else {found.tie[1]})" if found.tie else ""
    return f"{some}{shown}{more}{tie}"


def gone(found: Obstacle | None, nicknames: Nicknames, ended: Container[Key | None]) -> tuple[str, ...]:
    """Returns the names of the missing electors, without those whose keys have `ended`."""
    if found is None:
        return ()
    return tuple(_named(one, found, nicknames) for one in found.absent if one.key not in ended)


def _anybody(found: Obstacle) -> str:
    return f"{_peers(found.missing)} more" if found.missing else f"somebody {_WHOSE[found.whose]}"


def _named(elector: Elector, found: Obstacle, nicknames: Nicknames) -> str:
    """Returns an elector's name; the owners of a first model's electors know these by their endpoints."""
    nickname = nicknames.names.get(elector.key or b"")
    name = nickname or elector.name
    if nickname and found.whose is Whose.NAMED:
        name = f"{nickname} ({elector.name})"
    return f"{'this node' if elector.is_me else name}{' (whose vote is bound)' * elector.is_bound}"


def _peers(count: int, of: str = "") -> str:
    return f"{count}{of} peer{'' if count == 1 and not of else 's'}"


def _then(found: Obstacle) -> str:
    """Returns what follows from the obstacle."""
    if found.stage is Stage.TOO_FEW:
        is_here = "1 is" if found.here == 1 else f"{found.here} are"
        ended = found.here == 1 and found.whose in (Whose.LAST, Whose.STRONG)
        return f"a model takes at least {found.least} peers, and {is_here} here{_HAND_OVER * ended}"
    then = _THEN.get(found.stage) or f"goes on without them {_patience(found.patience)}"
    if found.patience.amnesty_s is None or found.stage in (*_COHORT, Stage.SAID):
        return then
    silent = "without a quorum those that are silent count as gone for good (aggregation.amnesty_s)"
    return f"{then}; after {found.patience.amnesty_s:g} s {silent}"


def _patience(left: PatienceLeft) -> str:
    if left.rounds <= 0:
        return f"{PATIENT_S:.0f} s after the first failed round"
    several = "" if left.rounds == 1 else "s"
    wait = f"failed round{several}" if left.wait_s is None else f"wait{several} of {left.wait_s:g} s"
    return f"after {left.rounds} more {wait}"


def command(out: Path) -> str:
    """Returns the command that declares electors gone for good."""
    return f"python -m node.rejoin --out {shlex.quote(str(out))}"


def names_of(electors: Sequence[Elector], nicknames: Nicknames) -> tuple[str, ...]:
    """Returns the names of electors that counted as gone."""
    return tuple(nicknames.names.get(one.key or b"", one.name) for one in electors)


def without_text(generation: int, names: Sequence[str]) -> str:
    """Returns the warning that a model was agreed without some electors, at the cost of safety."""
    return (
        f"the model of generation {generation} was agreed WITHOUT {', '.join(names)}, who count as gone for "
        "good, by the word of all owners in the group or by aggregation.amnesty_s: if they are not, another "
        "model may grow beside this one, and one of the two is lost"
    )
