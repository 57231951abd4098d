"""`murmuration join CODE --data FILE`: looks at an invitation, checks the own data against it, and joins."""

from __future__ import annotations

from node.cli.command import command
from node.cli.sigint import begun
from node.invitation.terminal import Terminal
from node.join.options import JoinOptions

_DESCRIPTION = """\
Joins others who learn together, by the code that one of them gave you. Shows who invites you and to what,
checks your own data against the task, and asks before anything is sent. Your rows stay on this machine.
Nothing has to be opened in a firewall: all connections go out, by HTTPS_PROXY where it is set.
You may end this and go on with: murmuration start FOLDER."""
_EPILOG = """\
example:
  murmuration join relay.uni.example/48213-otter-width-salt --data b.csv

exit status: 0 the run is over, 1 failed at run time, 2 bad code, data or arguments, 130 interrupted"""


def _run(options: JoinOptions) -> int:
    Terminal(options.yes).check()
    from node.join.run import join  # noqa: PLC0415 - loads torch: only once the arguments are checked

    begun()
    return join(options)


main = command(
    "node.join", JoinOptions, _DESCRIPTION, _EPILOG, starting=lambda _: "joining by a code", run=_run
)
main.start(__name__)
