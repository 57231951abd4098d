"""`python -m node.show DIR [DIR ...]`: opens the page of runs from their folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.command import command
from node.cli.options import DEBUG, FOLDERS, argument, option, reachable_path, switch
from node.cli.sigint import begun
from node.system.addresses import loopback_endpoint
from node.system.errors import one_line

_DESCRIPTION = """\
Serves the page of a run from its folder: of one that is over, or of one that still runs. Several folders are
compared side by side, and each keeps its own page. Nothing in the folders is changed."""
_EPILOG = """\
examples:
  python -m node.show runs/digits-1f2e3d4c
  python -m node.show runs/monday runs/tuesday       compares two runs
  python -m node.show runs                           compares all runs in a folder

The page stays until Ctrl-C. It is for this machine alone: whoever has an account here can see it.
exit status: 0 shown until it was told to end, 1 failed at run time, 2 bad arguments or folder"""


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """What is shown, and where."""

    folders: tuple[Path, ...] = argument(FOLDERS, reachable_path, nargs="+", metavar="DIR")
    listen: str = option(
        "the address of the page, on this machine alone; port 0 takes a free one. Default: %(default)s",
        loopback_endpoint,
        default="127.0.0.1:0",
        metavar="HOST:PORT",
    )
    browser: bool = switch("open the page in this user's browser. Default: no")
    debug: bool = switch(DEBUG)


def _run(options: ShowOptions) -> int:
    from node.show.serve import serve  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked

    begun()
    serve(options.folders, options.listen, open_browser=options.browser)
    return 0


main = command(
    "node.show",
    ShowOptions,
    _DESCRIPTION,
    _EPILOG,
    starting=lambda options: f"a page for {one_line(', '.join(map(str, options.folders)))}",
    run=_run,
)
main.start(__name__)
