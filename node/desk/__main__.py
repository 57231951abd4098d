"""`murmuration` or `murmuration desk`: a local page from which everything else is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.command import command
from node.cli.options import DEBUG, option, switch
from node.cli.sigint import begun
from node.system.addresses import loopback_endpoint

_DESCRIPTION = """\
Opens a page on this machine that leads from a file of data to a model: pick the file, see how it is read,
propose a task and check it, watch the runs in this folder, write reports and predict. Nothing is uploaded.
The page sees only the folder in which it was started. It shows for each step the command that does it too."""
_EPILOG = """\
examples:
  murmuration                            in the folder with your data
  murmuration desk --listen 127.0.0.1:8080

The address contains a token: whoever has it can do what you can do in this folder. Ctrl-C ends it.
exit status: 0 shown until it was told to end, 1 failed at run time, 2 bad arguments"""


@dataclass(frozen=True, kw_only=True)
class DeskOptions:
    """Where the page is shown."""

    listen: str = option(
        "the address of the page, on this machine alone; port 0 takes a free one. Default: %(default)s",
        loopback_endpoint,
        default="127.0.0.1:0",
        metavar="HOST:PORT",
    )
    debug: bool = switch(DEBUG)


def _run(options: DeskOptions) -> int:
    from node.desk.serve import serve  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked

    begun()
    serve(Path.cwd(), options.listen, debug=options.debug)
    return 0


main = command(
    "node.desk",
    DeskOptions,
    _DESCRIPTION,
    _EPILOG,
    starting=lambda options: "a page for this folder",
    run=_run,
)
main.start(__name__)
