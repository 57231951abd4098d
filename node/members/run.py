"""The members of a swarm's file, and what this owner decides about each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from node.invitation.key import key_file
from node.invitation.words import member_lines
from node.members.presence import presence_texts
from node.observe.view_sources import KEY_DIGITS
from node.storage.key_file import read_key
from node.storage.swarm_file import Swarm, read_swarm, write_swarm
from node.storage.vouches import SPENT_UNKNOWN, newcomers
from node.system.errors import ConfigError, shown
from protocol.invitation.roster import Member
from protocol.invitation.words import key_words
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Vouch


def members(folder: Path, accept: str | None, remove: str | None) -> None:
    """Changes the list if it is told to, and prints it. Raises ConfigError."""
    swarm, mine = read_swarm(folder), read_key(key_file(folder))
    own = None if mine is None else mine.public
    changed = swarm
    if accept is not None:
        changed = accepted(swarm, newcomers(folder, swarm), accept)
    elif remove is not None:
        changed = _without(swarm, remove, own)
    if own in swarm.names and own not in changed.names:
        raise ConfigError(f"--accept {shown(accept)}: this node has that name; allowed: another one")
    if changed != swarm:
        write_swarm(folder, changed)
    waiting, seen = newcomers(folder, changed), presence_texts(folder)
    everyone = [*changed.roster.everyone, *(Member(each.name, each.key) for each in waiting)]
    said = {
        key: "; ".join(filter(None, (remark, (seen or {}).get(key.hex()[:KEY_DIGITS]))))
        for key, remark in remarks(changed, waiting, own).items()
    }
    print("\n".join(member_lines(everyone, said)), flush=True)
    if seen is None:
        print("this node does not learn now, so it does not know who is here", flush=True)
    if changed != swarm:
        print("this holds from now on, also for a node that runs", flush=True)
    for key in swarm.names.keys() - changed.names.keys():
        print(f"warning: {swarm.names[key]} has a new key: {SPENT_UNKNOWN}", flush=True)


def accepted(swarm: Swarm, waiting: Sequence[Vouch], wanted: str) -> Swarm:
    """The swarm after its owner accepted a newcomer, or took a member back. Raises ConfigError.

    `wanted`: a name; or the words of a key, where two have one name.
    """
    found = [each for each in waiting if wanted in (each.name, key_words(each.key))]
    if len(found) > 1:
        words = " or ".join(f'"{key_words(each.key)}"' for each in found)
        raise ConfigError(f"--accept {shown(wanted)} names several newcomers; allowed: {words}")
    if not found:
        names = [*(each.name for each in swarm.roster.everyone), *(each.name for each in waiting)]
        return swarm.again_with(_named(swarm, "--accept", wanted, names))
    changed = swarm.with_word(found[0])
    if len(changed.learned_with) > MAX_MEMBERS:
        raise ConfigError(f"a swarm has at most {MAX_MEMBERS} members: remove one first")
    return changed


def _without(swarm: Swarm, name: str, own: Key | None) -> Swarm:
    key = _named(swarm, "--remove", name, [each.name for each in swarm.roster.everyone])
    if key == own:
        raise ConfigError(f"--remove {shown(name)} is this node itself; allowed: another member")
    return swarm.without(key)


def _named(swarm: Swarm, option: str, name: str, names: Sequence[str]) -> Key:
    found = [member.key for member in swarm.roster.everyone if member.name == name]
    if not found:
        raise ConfigError(f"{option} {shown(name)} is refused; allowed: {', '.join(sorted(names))}")
    return found[0]


def remarks(swarm: Swarm, waiting: Sequence[Vouch], own: Key | None) -> dict[Key, str]:
    """What stands beside each member."""
    roster, kept = swarm.roster, dict.fromkeys(swarm.learned_with, "")
    found = {key: kept.get(key, "removed by you: not learned with") for key in swarm.names}
    if not found.get(roster.inviter, "gone"):
        found[roster.inviter] = "invited all"
    for each in waiting:
        found[each.key] = f"{swarm.names[each.member]} vouches for {_what(each, swarm)}: not accepted yet"
    return found if own is None else {**found, own: "this machine"}


def _what(vouch: Vouch, swarm: Swarm) -> str:
    return "it" if swarm.roster.named(vouch.name) is None else "its new key"
