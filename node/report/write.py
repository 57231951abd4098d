"""Writes a report's files once all of them are made: if a run cannot be read, no file changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from node.observe.run_folder import RunFolder, found_runs
from node.report.single_file import MARK, single_file
from node.report.tables import TableRows, as_csv, as_parquet, table
from node.storage.whole_files import ANYBODYS, begins_with, replace_file
from node.system.errors import ConfigError, one_line, reason, shown

NAME = "report.html"
TABLES: Mapping[str, Callable[[TableRows], bytes]] = {"--csv": as_csv, "--parquet": as_parquet}
_BEGINNING = f"<!DOCTYPE html>\n{MARK}".encode()


def write(folders: Sequence[Path], wanted: Mapping[str, Path], *, force: bool) -> list[str]:
    """Writes the files that are `wanted`, by option; an HTML file if none is. Returns a line for each.

    Raises ConfigError for a folder without a run and for a file that exists and is no report, unless `force`.
    """
    runs = found_runs(folders)
    files = dict(wanted) or {"--html": (runs[0] / NAME if len(runs) == 1 else Path(NAME))}
    for option, path in files.items():
        try:
            is_free = not path.exists() or (path.is_file() and (force or begins_with(path, _BEGINNING)))
        except OSError as error:
            raise ConfigError(
                f"{option} {shown(str(path))} cannot be read: {reason(error)}; give another"
            ) from error
        if not is_free:
            raise ConfigError(
                f"{option} {shown(str(path))} exists and is no earlier report; give another, or --force to "
                "replace it"
            )
    made = {option: _made(option, runs) for option in files}
    for option, path in files.items():
        _write(option, path, made[option])
    return [
        f"{_KINDS[option]}: {one_line(str(path))}, {len(made[option]) / 1000:.0f} kB{_mark(option, runs)}"
        for option, path in files.items()
    ]


_KINDS = {"--html": "report", "--csv": "table", "--parquet": "table", "--xgboost": "trees"}


def _mark(option: str, runs: Sequence[Path]) -> str:
    """Returns which jobs were not over, for a file that shows their models; empty if all were."""
    views = [] if option in TABLES else [RunFolder(run).read() for run in runs]
    return "".join(
        f"; {view.folder} is UNFINISHED: its job stopped after sum {view.generation}"
        for view in views
        if view.is_unfinished
    )


def _made(option: str, runs: Sequence[Path]) -> bytes:
    if option in TABLES:
        return TABLES[option](table(runs))
    if option == "--xgboost":
        from node.report.xgboost import xgboost_file  # noqa: PLC0415 - torch, and only this file needs it

        return xgboost_file(runs)
    return single_file([RunFolder(run).read() for run in runs], time.time()).encode()


def _write(option: str, path: Path, content: bytes) -> None:
    try:
        replace_file(path, (content,), durable=False, mode=ANYBODYS)
    except OSError as error:
        raise ConfigError(
            f"{option} {shown(str(path))} cannot be written: {reason(error)}; give another"
        ) from error
