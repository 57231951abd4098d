"""`python -m node.predict`: predicts new rows with a model that a swarm agreed on."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from node.cli.commands import program
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import begun, leave
from node.errors import ConfigError, one_line, reason, shown
from node.options import add_cells, reachable_path
from node.task.dialect import cells_table

if TYPE_CHECKING:  # loads torch
    from node.training.trainer import Evaluation

_BEGINNING = b"row,prediction"
"""How a file that this command wrote begins; such a file may be replaced."""

_EPILOG = """\
example:
  python -m node.predict --model runs/ward-1f2e3d4c --data new.csv --out predictions.csv

A model file names the class to load: like a task file, accept it only from people you trust.
exit status: 0 done, 1 failed at run time, 2 bad arguments, model or data."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def command_line() -> NodeParser:
    """Returns the parser."""
    parser = NodeParser(
        prog=program("node.predict"),
        description="Predicts with the model of a run; measures the model if the data has the target.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--model", required=True, metavar="DIR|FILE", help="a run's --out, or its model.safetensors"
    )
    parser.add_argument(
        "--data", required=True, metavar="FILE", help="the rows, in the format of the task's own data"
    )
    add_cells(parser)
    parser.add_argument(
        "--out", default="predictions.csv", metavar="FILE", help="the output. Default: predictions.csv"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object. Default: no")
    parser.add_argument("--debug", action="store_true", help="print tracebacks of errors. Default: no")
    return parser


def _main(argv: Sequence[str]) -> int:
    given = command_line().parse_args(argv)
    model, data = reachable_path(given.model, "--model"), reachable_path(given.data, "--data")
    out = reachable_path(given.out, "--out")
    _check_out(out)
    cells = None if given.cells is None else cells_table(given.cells, "--cells")
    if not given.json:
        told = f"predictions for {given.data} with the model in {given.model}"
        print(f"starting: {one_line(told)}", flush=True)
    from node.predict.model import (  # noqa: PLC0415 - loads torch, seconds
        answer,
        calibration,
        figures,
        open_model,
        written,
    )
    from node.predict.rows import read_rows  # noqa: PLC0415
    from node.task.load import with_cells  # noqa: PLC0415

    saved = open_model(model)
    task = saved.task if cells is None else with_cells(saved.task, cells, "--cells")
    rows = read_rows(data, task, saved.classes, saved.row)
    outputs = answer(saved, rows)
    found = None if rows.y is None else figures(saved, outputs, rows.y)
    say = _as_json if given.json else _as_text
    corrected = calibration(saved)
    text = say(len(outputs), given.out, found, saved.about, "" if corrected is None else corrected.says)
    begun()
    _write(out, written(saved, outputs))
    print(text)
    return 0


def _check_out(path: Path) -> None:
    """Raises ConfigError if --out would replace anything other than predictions, such as data or a device."""
    try:
        if not path.exists() or (path.is_file() and _begins(path) == _BEGINNING):
            return
    except OSError as error:
        raise ConfigError(f"--out {shown(str(path))} cannot be read: {reason(error)}") from error
    raise ConfigError(f"--out {shown(str(path))} exists and is not a file of predictions; give another")


def _begins(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_BEGINNING))


def _write(path: Path, content: bytes) -> None:
    from node.storage.whole_files import ANYBODYS, replace_file  # noqa: PLC0415

    try:
        replace_file(path, (content,), durable=False, mode=ANYBODYS)
    except OSError as error:
        raise ConfigError(f"--out {shown(str(path))} cannot be written: {reason(error)}") from error


def _as_json(rows: int, out: str, found: Evaluation | None, about: Mapping[str, object], chances: str) -> str:
    model = {key: about.get(key) for key in ("base_digest", "generation", "participants", "privacy")}
    said = {"event": "predicted", "rows": rows, "out": out, "metrics": None, "model": model}
    said["probabilities"] = chances or None
    if found is not None:
        measured = {**_metrics(found), "loss": found.loss}
        said |= {"metrics": measured, **asdict(found.headline), "flaws": found.flaws}
    return json.dumps(said)


def _metrics(found: Evaluation) -> Mapping[str, float | None]:
    """Returns the metrics, with the accuracy where targets are classes."""
    return found.metrics if found.accuracy is None else {**found.metrics, "accuracy": found.accuracy}


def _as_text(rows: int, out: str, found: Evaluation | None, about: Mapping[str, object], chances: str) -> str:
    privacy = about.get("privacy")
    told_of = ("base_digest", "generation", "participants")
    base, generation, updates = (one_line(str(about.get(key)))[:16] for key in told_of)
    lines = [f"model: base {base} of generation {generation}, the mean of {updates} updates"]
    if isinstance(privacy, dict):
        lines.append(_spent(privacy))
    lines.append(f"predictions: {rows} rows in {out}")
    lines.extend([f"probabilities: {chances}"] if chances else [])
    lines.extend(["metrics: none, as the data has no target"] if found is None else _measured(found))
    return "\n".join(lines)


def _measured(found: Evaluation) -> list[str]:
    from node.training.figures.metric_words import headline_text, metric_text  # noqa: PLC0415

    told = (metric_text(name, value) for name, value in _metrics(found).items())
    return [
        f"result: {'; '.join((headline_text(found.headline, found.metrics), *found.flaws))}",
        f"metrics: {', '.join(told)}, loss {found.loss:.4f}",
    ]


def _spent(privacy: Mapping[str, object]) -> str:
    from node.runtime.privacy.budget import ledger_text  # noqa: PLC0415

    try:
        return one_line(ledger_text(privacy))
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"--model states {shown(privacy)} as the privacy spent, which no node does; use the original file"
        ) from None


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
