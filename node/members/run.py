"""The members of a swarm's file, and what this owner decides about each."""

from __future__ import annotations

from pathlib import Path

from node.invitation.key import key_file
from node.invitation.swarm_file import Swarm, read_swarm, write_swarm
from node.invitation.words import member_lines
from node.members.presence import presence_texts
from node.observe.view_sources import KEY_DIGITS
from node.storage.key_file import read_key
from node.system.errors import ConfigError, shown
from protocol.wire.ids import Key


def members(folder: Path, accept: str | None, remove: str | None) -> None:
    """Changes the list if it is told to, and prints it. Raises ConfigError."""
    swarm, mine = read_swarm(folder), read_key(key_file(folder))
    own = None if mine is None else mine.public
    changed = swarm
    if accept is not None:
        changed = swarm.again_with(_named(swarm, "--accept", accept))
    elif remove is not None:
        key = _named(swarm, "--remove", remove)
        if key == own:
            raise ConfigError(f"--remove {shown(remove)} is this node itself; allowed: another member")
        changed = swarm.without(key)
    if changed != swarm:
        write_swarm(folder, changed)
    seen = presence_texts(folder)
    remarks = {
        key: "; ".join(filter(None, (remark, (seen or {}).get(key.hex()[:KEY_DIGITS]))))
        for key, remark in _remarks(changed, own).items()
    }
    print("\n".join(member_lines(changed.roster.members, remarks)), flush=True)
    if seen is None:
        print("this node does not learn now, so it does not know who is here", flush=True)
    if changed != swarm:
        print("this holds from the next start of this node", flush=True)


def _named(swarm: Swarm, option: str, name: str) -> Key:
    found = [member.key for member in swarm.roster.members if member.name == name]
    if not found:
        names = ", ".join(sorted(member.name for member in swarm.roster.members))
        raise ConfigError(f"{option} {shown(name)} is refused; allowed: {names}")
    return found[0]


def _remarks(swarm: Swarm, own: Key | None) -> dict[Key, str]:
    kept = dict.fromkeys(swarm.learned_with, "")
    remarks = {key: kept.get(key, "removed by you: not learned with") for key in swarm.names}
    if not remarks[swarm.roster.inviter]:
        remarks[swarm.roster.inviter] = "invited all"
    return remarks if own is None else {**remarks, own: "this machine"}
