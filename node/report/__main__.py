"""`python -m node.report DIR [DIR ...]`: writes runs as one HTML file, as CSV or as Parquet."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from node.cli.commands import program
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import begun, leave
from node.errors import one_line
from node.options import reachable_path

_DESCRIPTION = """\
Writes what the page of a run shows into one HTML file that loads nothing else and can be mailed. Several
folders are compared side by side, with the page of each. --csv and --parquet write all rounds as a table."""
_EPILOG = """\
examples:
  python -m node.report runs/digits-1f2e3d4c                      writes runs/digits-1f2e3d4c/report.html
  python -m node.report runs/monday runs/tuesday --html both.html
  python -m node.report runs/digits-1f2e3d4c --csv rounds.csv

Without --csv and --parquet it writes the HTML file. The report shows figures that come from the owner's data:
accuracy, loss and the privacy spent.

exit status: 0 written, 1 failed at run time, 2 bad arguments or folder"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def command_line() -> NodeParser:
    """Returns the parser."""
    parser = NodeParser(
        prog=program("node.report"),
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("folders", nargs="+", metavar="DIR", help="the --out of a node, or a folder of such")
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="the HTML file. Default: report.html in the folder of the run, or here for several runs",
    )
    parser.add_argument("--csv", metavar="FILE", help="write all rounds as CSV. Default: no")
    parser.add_argument("--parquet", metavar="FILE", help="write all rounds as Parquet. Default: no")
    parser.add_argument(
        "--force", action="store_true", help="replace files that are there. Default: only earlier reports"
    )
    parser.add_argument("--debug", action="store_true", help="print tracebacks of errors. Default: no")
    return parser


def _main(argv: Sequence[str]) -> int:
    given = command_line().parse_args(argv)
    folders = [reachable_path(name, "DIR") for name in given.folders]
    wanted = {
        option: reachable_path(path, option)
        for option, path in (("--html", given.html), ("--csv", given.csv), ("--parquet", given.parquet))
        if path is not None
    }
    print(f"starting: a report of {one_line(', '.join(map(str, folders)))}", flush=True)
    from node.report.write import write  # noqa: PLC0415 - loads numpy: only once the arguments are checked

    begun()
    for line in write(folders, wanted, force=given.force):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
