"""`python -m node.report DIR [DIR ...]`: writes runs as one HTML file, as CSV or as Parquet, or trees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.command import command
from node.cli.options import DEBUG, FOLDERS, argument, option, reachable_path, switch
from node.cli.sigint import begun
from node.system.errors import one_line

_DESCRIPTION = """\
Writes what the page of a run shows into one HTML file that loads nothing else and can be mailed. Several
folders are compared side by side, with the page of each. --csv and --parquet write all rounds as a table,
--xgboost the trees of a model."""
_EPILOG = """\
examples:
  python -m node.report runs/digits-1f2e3d4c                      writes runs/digits-1f2e3d4c/report.html
  python -m node.report runs/monday runs/tuesday --html both.html
  python -m node.report runs/digits-1f2e3d4c --csv rounds.csv
  python -m node.report runs/ward-1f2e3d4c --xgboost trees.json   of model.class = "node.models:Trees"

Without --csv, --parquet and --xgboost it writes the HTML file. The report shows figures that come from the
owner's data: accuracy, loss and the privacy spent.

exit status: 0 written, 1 failed at run time, 2 bad arguments or folder"""


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What is reported, and into which files."""

    folders: tuple[Path, ...] = argument(FOLDERS, reachable_path, nargs="+", metavar="DIR")
    html: Path | None = option(
        "the HTML file. Default: report.html in the folder of the run, or here for several runs",
        reachable_path,
        metavar="FILE",
    )
    csv: Path | None = option("write all rounds as CSV. Default: no", reachable_path, metavar="FILE")
    parquet: Path | None = option("write all rounds as Parquet. Default: no", reachable_path, metavar="FILE")
    xgboost: Path | None = option(
        "write the run's trees as JSON that XGBoost loads. Default: no", reachable_path, metavar="FILE"
    )
    force: bool = switch("replace files that are there. Default: only earlier reports")
    debug: bool = switch(DEBUG)


def _run(options: ReportOptions) -> int:
    from node.report.write import write  # noqa: PLC0415 - loads numpy: only once the arguments are checked

    begun()
    files = {
        "--html": options.html,
        "--csv": options.csv,
        "--parquet": options.parquet,
        "--xgboost": options.xgboost,
    }
    wanted = {option: path for option, path in files.items() if path is not None}
    for line in write(options.folders, wanted, force=options.force):
        print(line, flush=True)
    return 0


main = command(
    "node.report",
    ReportOptions,
    _DESCRIPTION,
    _EPILOG,
    starting=lambda options: f"a report of {one_line(', '.join(map(str, options.folders)))}",
    run=_run,
)
main.start(__name__)
