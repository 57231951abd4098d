"""`murmuration invite TASK.toml --data FILE --me NAME --relay HOST#WORD NAME ...`: a code for each name."""

from __future__ import annotations

from node.cli.command import command
from node.cli.sigint import begun
from node.invitation.terminal import Terminal
from node.invite.options import InviteOptions, check_first, check_later
from node.system.errors import ConfigError, one_line
from protocol.invitation.roster import same_name
from protocol.wire.limits import MAX_MEMBERS

_DESCRIPTION = """\
Invites people to learn with you. Checks the task and your data, shows what the task tells about your data,
and prints a line for each NAME: give it to that person only, by telephone or a channel that you trust. Each
code is good for 24 hours, once. When all are here, you see their list, close it, and your node starts.
Nothing has to be opened in a firewall: all connections go out, to the relay.
You may end this and go on with: murmuration start FOLDER.

With the FOLDER of a swarm that learns already, any member invites later ones: --data, --me and --relay are
known. The word of this node for them reaches the others, and each owner decides with murmuration members."""
_EPILOG = """\
example:
  murmuration invite ward.toml --data a.csv --me "Ward A" --relay relay.uni.example#v8k2-qm4t \\
                     "Ward B" "Ward C"
  murmuration invite runs/ward "Ward D"

exit status: 0 the run is over, 1 failed at run time, 2 bad arguments, task or data, 130 interrupted"""


def _run(options: InviteOptions) -> int:
    Terminal(options.yes).check()
    if options.task.is_dir():
        check_later(options)
        from node.invite.later import invite_later  # noqa: PLC0415 - loads torch: the arguments come first

        begun()
        return invite_later(options.task, options.names, Terminal(options.yes))
    check_first(options)
    if (twice := same_name((options.me or "", *options.names))) is not None:
        raise ConfigError(f'two members would be called "{twice}": give each a name of its own')
    if len(options.names) >= MAX_MEMBERS:
        raise ConfigError(f"{len(options.names)} names; allowed: at most {MAX_MEMBERS - 1}, besides your own")
    from node.invite.run import invite  # noqa: PLC0415 - loads torch: only once the arguments are checked

    begun()
    return invite(options)


main = command(
    "node.invite",
    InviteOptions,
    _DESCRIPTION,
    _EPILOG,
    starting=lambda options: f"an invitation to {one_line(str(options.task))}",
    run=_run,
)
main.start(__name__)
