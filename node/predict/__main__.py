"""`python -m node.predict`: predicts new rows with a model that a swarm agreed on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from node.cli.command import command
from node.cli.options import DEBUG, option, reachable_path, switch
from node.cli.sigint import begun
from node.options import cells_option
from node.storage.whole_files import ANYBODYS, begins_with, replace_file
from node.system.errors import ConfigError, one_line, reason, shown

if TYPE_CHECKING:  # loads torch
    from node.training.trainer import Evaluation

_BEGINNING = b"row,prediction"
"""How a file that this command wrote begins; such a file may be replaced."""
_DESCRIPTION = "Predicts with the model of a run; measures the model if the data has the target."
_EPILOG = """\
example:
  python -m node.predict --model runs/ward-1f2e3d4c --data new.csv --out predictions.csv

A model file names the class to load: like a task file, accept it only from people you trust.
exit status: 0 done, 1 failed at run time, 2 bad arguments, model or data."""


def _out(written: str, place: str) -> Path:
    """Returns the path; ConfigError if it would replace anything but predictions, such as a device."""
    path = reachable_path(written, place)
    try:
        if not path.exists() or (path.is_file() and begins_with(path, _BEGINNING)):
            return path
    except OSError as error:
        raise ConfigError(f"--out {shown(str(path))} cannot be read: {reason(error)}") from error
    raise ConfigError(f"--out {shown(str(path))} exists and is not a file of predictions; give another")


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """The model, the rows, and where the predictions go."""

    model: Path = option(
        "a run's --out, or its model.safetensors", reachable_path, required=True, metavar="DIR|FILE"
    )
    data: Path = option(
        "the rows, in the format of the task's own data", reachable_path, required=True, metavar="FILE"
    )
    cells: Mapping[str, object] | None = cells_option()
    out: Path = option("the output. Default: %(default)s", _out, default="predictions.csv", metavar="FILE")
    json: bool = switch("print one JSON object. Default: no")
    debug: bool = switch(DEBUG)


def _starting(options: PredictOptions) -> str | None:
    told = one_line(f"predictions for {options.data} with the model in {options.model}")
    return None if options.json else told


def _run(options: PredictOptions) -> int:
    from node.predict.model import (  # noqa: PLC0415 - loads torch, seconds
        answer,
        calibration,
        figures,
        open_model,
        written,
    )
    from node.predict.rows import read_rows  # noqa: PLC0415
    from node.task.load import with_cells  # noqa: PLC0415

    saved = open_model(options.model)
    task = saved.task if options.cells is None else with_cells(saved.task, options.cells, "--cells")
    rows = read_rows(options.data, task, saved.classes, saved.row)
    outputs = answer(saved, rows)
    found = None if rows.y is None else figures(saved, outputs, rows.y)
    say = _as_json if options.json else _as_text
    corrected = calibration(saved)
    chances = "" if corrected is None else corrected.says
    text = say(len(outputs), str(options.out), found, saved.about, chances)
    begun()
    _write(options.out, written(saved, outputs))
    print(text)
    return 0


def _write(path: Path, content: bytes) -> None:
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


main = command("node.predict", PredictOptions, _DESCRIPTION, _EPILOG, starting=_starting, run=_run)
main.start(__name__)
