"""`murmuration members FOLDER`: shows the members of a swarm; removes one, or takes one back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.command import command
from node.cli.options import DEBUG, argument, option, reachable_path, switch
from node.cli.sigint import begun
from node.system.errors import ConfigError, one_line

_DESCRIPTION = """\
Shows who learns with the node of FOLDER, with the words of their keys, which you may compare by telephone,
and, while that node runs, who is here or since when somebody is missed.

--accept NAME: this node learns with a newcomer for whom a member vouches, or again with a member that you
removed. --remove NAME: it no longer learns with a member, and no word of others brings that one back. Each
owner decides for its own node. If a quorum needs a removed member: murmuration rejoin --gone. Both hold at
once, also for a node that runs."""
_EPILOG = """\
examples:
  murmuration members runs/ward
  murmuration members runs/ward --accept "Ward D"
  murmuration members runs/ward --remove "Ward C"

exit status: 0 shown or stored, 2 bad arguments or folder"""


@dataclass(frozen=True, kw_only=True)
class MembersOptions:
    """The folder, and what its owner decides."""

    folder: Path = argument("the folder that invite or join named", reachable_path, metavar="FOLDER")
    accept: str | None = option("learn with this newcomer, or with this member again", metavar="NAME")
    remove: str | None = option("learn with this member no more", metavar="NAME")
    debug: bool = switch(DEBUG)


def _run(options: MembersOptions) -> int:
    if options.accept is not None and options.remove is not None:
        raise ConfigError("--accept and --remove are both given; give one of them")
    from node.members.run import members  # noqa: PLC0415 - loads numpy: only once the arguments are checked

    begun()
    members(options.folder, options.accept, options.remove)
    return 0


main = command(
    "node.members",
    MembersOptions,
    _DESCRIPTION,
    _EPILOG,
    starting=lambda options: f"a look at the members of {one_line(str(options.folder))}",
    run=_run,
)
main.start(__name__)
