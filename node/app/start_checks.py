"""What is checked before a start: addresses, lists of keys, the key and the folder that the options name.

Nothing here loads torch: `check_start` says what is wrong with them before a start takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from node.net.incoming.listening import check_names, listen
from node.options import NodeOptions
from node.storage.allow_list import read_allow_list
from node.storage.folder_lock import KEY, LOCK, Lock, check_folder
from node.storage.key_file import read_key
from node.storage.nicknames import Nicknames, read_nicknames
from node.system.errors import ConfigError
from node.task.table_models import is_exact
from protocol.crypto.node_key import NodeKey
from protocol.wire.endpoints import key_of

_OF_LIST = ("the list of this swarm", "murmuration invite FOLDER NAME invites one more")


def check_start(options: NodeOptions) -> None:
    """Raises ConfigError, or InUse, for what a node would refuse once it has read its data."""
    for step in STEPS.values():
        step(options)


def check_others(options: NodeOptions) -> None:
    """Raises ConfigError if the host name of a peer or tracker does not resolve, or if peers are too few."""
    hosts = (peer.endpoint for peer in options.peers if key_of(peer.endpoint) is None)
    check_names("--peers", hosts)
    plan, members = options.task.step_plan, len(named_members(options))
    # Peers who share the noise; a tracker may introduce any number of them.
    if plan is not None and options.tracker is None and members < plan.honest + 1:
        raise ConfigError(
            f"--peers names {len(options.peers)} peers, {members} with this node, and privacy.honest = "
            f"{plan.honest} needs at least {plan.honest + 1}; name more peers, or lower privacy.honest"
        )
    check_names("--tracker", [options.tracker] if options.tracker else [])


def check_members(options: NodeOptions, endpoint: str | None = None) -> None:
    """Raises ConfigError for too few members for any sum. `endpoint`: as in `named_members`."""
    least, members = options.task.aggregation.min_participants, len(named_members(options, endpoint))
    if options.tracker is not None or members >= least:
        return
    where, then = ("--peers", "name the others, too") if options.swarm is None else _OF_LIST
    raise ConfigError(
        f"{where} names {members} members, this node among them; allowed: {least} or more, as of two each "
        f"could subtract its own numbers from a sum; {then}"
    )


def check_rounds(options: NodeOptions) -> None:
    """Raises ConfigError for --rounds where exact sums make the model."""
    if options.rounds is not None and is_exact(options.task):
        raise ConfigError(
            f"--rounds {options.rounds} is refused with model.class = {options.task.model.cls!r} without "
            "privacy, whose sums end when they add nothing; allowed: no --rounds; leave it out"
        )


def named_members(options: NodeOptions, endpoint: str | None = None) -> frozenset[str]:
    """Returns the addresses of all peers that --peers names, and of this node, which it may name, too.

    `endpoint`: this node's address, once it listens; until then that of --listen, whose port may be 0.
    """
    mine = endpoint or options.listen
    return frozenset((*([mine] if mine else ()), *(peer.endpoint for peer in options.peers)))


def allowed(options: NodeOptions) -> frozenset[bytes] | None:
    """Returns the keys that may take part: the allow-list and pinned keys; None if anyone may."""
    pinned = frozenset(peer.key for peer in options.peers if peer.key is not None)
    if options.allow is not None:
        return read_allow_list(options.allow) | pinned
    return pinned if pinned and len(pinned) == len(options.peers) else None


def nicknames(options: NodeOptions) -> Nicknames:
    """Returns the names of keys: the owner's, or those of the swarm's list. Raises ConfigError."""
    if options.names is not None:
        return read_nicknames(options.names)
    return Nicknames({} if options.swarm is None else dict(options.swarm.names))


def key_path(options: NodeOptions) -> Path | None:
    """Returns where this node's key is, or will be; None: in a folder that its key names."""
    if options.key is not None:
        return options.key
    return options.out / KEY if options.out is not None else None


def _check_port(options: NodeOptions) -> None:
    if options.listen is not None:
        listen(options.listen).close()


def _check_out(options: NodeOptions) -> None:
    """Raises ConfigError for a key that cannot be read and a folder that is not a node's; InUse."""
    key = existing_key(options) if key_file_exists(options) else None
    out = options.folder(key.public) if key is not None else options.out
    if out is None:
        return
    check_folder(out, options.key or out / KEY, has_key=key is not None)
    if (out / LOCK).exists():
        Lock(out).release()


def key_file_exists(options: NodeOptions) -> bool:
    """Whether the key file is there, or cannot be looked for."""
    path = key_path(options)
    try:
        return path is not None and path.exists()
    except OSError:  # read_key reports the reason
        return True


def existing_key(options: NodeOptions) -> NodeKey:
    """Returns the key in the key file; raises ConfigError."""
    path = key_path(options)
    key = read_key(path) if path is not None else None
    if key is None:
        raise ConfigError(f"the key file {path} is gone; start again")
    return key


STEPS: Mapping[str, Callable[[NodeOptions], object]] = {
    "peers": check_others,
    "allow-list": allowed,
    "names": nicknames,
    "port": _check_port,
    "out": _check_out,
}
"""The steps of a start before its data, by their subjects. They raise UserError; node.check takes them."""
