"""The work of `python -m node.predict`: reads model and rows, writes predictions, says how good they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch

from node.cli.sigint import begun
from node.predict.explain import contributions, explained_words
from node.predict.learner import learner_of, predict_by
from node.predict.model import SavedModel, answer, calibration, figures, open_model, written
from node.predict.options import FOUND, PREDICTIONS, PredictOptions, no_predictions
from node.predict.rows import read_rows
from node.runtime.privacy.budget import ledger_text
from node.storage.whole_files import ANYBODYS, replace_file
from node.system.errors import ConfigError, one_line, reason, shown
from node.task.load import with_cells
from node.task.table_models import is_exact
from node.training.figures.metric_words import headline_text, metric_text
from node.training.model_file import unfinished_words
from node.training.trainer import Evaluation


def predict(options: PredictOptions) -> str:
    """Writes the predictions; returns what to print. Raises ConfigError."""
    learner = learner_of(options.model)
    if learner is not None:
        return _by_learner(learner, options)
    out = options.out or PREDICTIONS
    if out.is_dir():
        raise no_predictions(out)
    saved = open_model(options.model, options.weights)
    task = saved.task if options.cells is None else with_cells(saved.task, options.cells, "--cells")
    task = replace(task, data=replace(task.data, encoder=options.encoder))
    rows = read_rows(options.data, task, saved.classes, saved.row)
    x = torch.from_numpy(rows.x)
    outputs = answer(saved, x)
    found = None if rows.y is None else figures(saved, outputs, torch.from_numpy(rows.y))
    say = _as_json if options.json else _as_text
    corrected = calibration(saved)
    chances = "" if corrected is None else corrected.says
    text = say(len(outputs), str(out), found, saved, chances)
    beside = [["file"], *([name] for name in rows.names)] if rows.names else None
    if options.explain:
        beside = contributions(saved, x, outputs)
        text += "" if options.json else f"\nexplained: {explained_words(saved)}"
    begun()
    for remark in rows.remarks:
        print(f"warning: {one_line(remark)}", file=sys.stderr, flush=True)
    if unfinished := unfinished_words(saved.about):
        print(f"warning: {one_line(str(options.model))} is {unfinished}", file=sys.stderr, flush=True)
    _write(out, written(saved, outputs, beside))
    return text


def _by_learner(learner: str, options: PredictOptions) -> str:
    given = {"--cells": options.cells, "--encoder": options.encoder, "--weights": options.weights}
    refused = [name for name, value in given.items() if value is not None]
    for name in [*refused, *(["--explain"] if options.explain else [])]:
        raise ConfigError(f"{name} is refused with model.learner = {shown(learner)}; leave it out")
    out = options.out or FOUND
    begun()
    told = one_line(predict_by(learner, options.model, options.data, out))
    return json.dumps({"event": "predicted", "out": str(out), "told": told}) if options.json else told


def _write(path: Path, content: bytes) -> None:
    try:
        replace_file(path, (content,), durable=False, mode=ANYBODYS)
    except OSError as error:
        raise ConfigError(f"--out {shown(str(path))} cannot be written: {reason(error)}") from error


def _as_json(rows: int, out: str, found: Evaluation | None, saved: SavedModel, chances: str) -> str:
    model = {key: saved.about.get(key) for key in ("base_digest", "generation", "participants", "privacy")}
    model |= {"finished": False} if unfinished_words(saved.about) else {}
    said = {"event": "predicted", "rows": rows, "out": out, "metrics": None, "model": model}
    said["probabilities"] = chances or None
    if found is not None:
        measured = {**_metrics(found), "loss": found.loss}
        said |= {"metrics": measured, **asdict(found.headline), "flaws": found.flaws}
    return json.dumps(said)


def _metrics(found: Evaluation) -> Mapping[str, float | None]:
    """Returns the metrics, with the accuracy where targets are classes."""
    return found.metrics if found.accuracy is None else {**found.metrics, "accuracy": found.accuracy}


def _as_text(rows: int, out: str, found: Evaluation | None, saved: SavedModel, chances: str) -> str:
    privacy = saved.about.get("privacy")
    told_of = ("base_digest", "generation", "participants")
    base, generation, members = (one_line(str(saved.about.get(key)))[:16] for key in told_of)
    made = f"exact sums over {members} members" if is_exact(saved.task) else f"the mean of {members} updates"
    lines = [f"model: base {base} of generation {generation}, {made}"]
    if isinstance(privacy, dict):
        lines.append(_spent(privacy))
    lines.append(f"predictions: {rows} rows in {out}")
    lines.extend([f"probabilities: {chances}"] if chances else [])
    lines.extend(["metrics: none, as the data has no target"] if found is None else _measured(found))
    return "\n".join(lines)


def _measured(found: Evaluation) -> list[str]:
    told = (metric_text(name, value) for name, value in _metrics(found).items())
    return [
        f"result: {'; '.join((headline_text(found.headline, found.metrics), *found.flaws))}",
        f"metrics: {', '.join(told)}, loss {found.loss:.4f}",
    ]


def _spent(privacy: Mapping[str, object]) -> str:
    try:
        return one_line(ledger_text(privacy))
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"--model states {shown(privacy)} as the privacy spent, which no node does; use the original file"
        ) from None
