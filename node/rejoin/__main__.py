"""`python -m node.rejoin --out DIR`: shows who decides on the next model; stores who is gone for good."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.asking import affirmed
from node.cli.command import command
from node.cli.options import DEBUG, option, reachable_path, repeated, switch
from node.cli.sigint import begun
from node.system.errors import one_line

_DESCRIPTION = """\
For the owner of a stopped node whose swarm waits for somebody. Without --gone: shows who decides on the next
model (its electors), how many of them make a quorum, and who was declared gone. Nothing is changed.

With --gone: declares these electors gone for good. A group of nodes whose owners have all declared so goes on
without them. THIS GIVES UP SAFETY: if one of them is not gone, two models may grow side by side, and one of
the two is lost. It holds until a quorum makes the next model, or --gone none withdraws it."""
_EPILOG = """\
examples, at each node that is to go on, while it is stopped:
  python -m node.rejoin --out runs/mine
  python -m node.rejoin --out runs/mine --gone a1b2c3d4 --gone 10.0.0.7:9001 --yes
  python -m node.rejoin --out runs/mine --gone none

exit status: 0 shown or stored, 1 the node runs, 2 bad arguments or folder, or not confirmed"""


@dataclass(frozen=True, kw_only=True)
class RejoinOptions:
    """The folder of the node, and who is gone."""

    out: Path = option("the folder of a node that is stopped", reachable_path, required=True, metavar="DIR")
    gone: tuple[str, ...] = repeated(
        "an elector that is gone for good: at least 8 digits that its key begins with, or its HOST:PORT; "
        "repeatable; replaces earlier names; none withdraws all",
        metavar="NAME",
    )
    yes: bool = switch("store it without asking. Default: ask")
    debug: bool = switch(DEBUG)


def _run(options: RejoinOptions) -> int:
    from node.rejoin.run import rejoin  # noqa: PLC0415 - loads scipy: only once the arguments are checked

    begun()
    rejoin(options.out, options.gone, lambda: options.yes or affirmed("Store this?"))
    return 0


main = command(
    "node.rejoin",
    RejoinOptions,
    _DESCRIPTION,
    _EPILOG,
    starting=lambda options: f"a look into {one_line(str(options.out))}",
    run=_run,
)
main.start(__name__)
