"""`python -m node.predict`: what a model that a swarm agreed on says of new rows."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from node.cli import guarded, print_error
from node.errors import ConfigError, reason, shown
from node.options import NodeParser

_EPILOG = """\
example:
  python -m node.predict --model runs/ward-1f2e3d4c --data new.csv --out predictions.csv

The file of the model names the class that it is made of: like a task file, take it from people you trust.
exit status: 0 done, 1 failed at run time, 2 bad arguments, model or data."""


def main(argv: Sequence[str]) -> int:
    """The exit status."""
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _parser() -> argparse.ArgumentParser:
    parser = NodeParser(
        prog="python -m node.predict",
        description="Predict with the model of a run; with the target in the data, say how good it is.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--model", required=True, metavar="DIR|FILE", help="a run's --out, or its model.safetensors"
    )
    parser.add_argument(
        "--data", required=True, metavar="FILE", help="the rows, as the task reads its own data"
    )
    parser.add_argument(
        "--out", default="predictions.csv", metavar="FILE", help="where to. Default: predictions.csv"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object. Default: no")
    parser.add_argument("--debug", action="store_true", help="tracebacks of errors. Default: no")
    return parser


def _main(argv: Sequence[str]) -> int:
    given = _parser().parse_args(argv)
    from node.prediction import answer, figures, open_model, written  # noqa: PLC0415 - loads torch, seconds
    from node.unseen import read_rows  # noqa: PLC0415

    saved = open_model(Path(given.model))
    rows = read_rows(Path(given.data), saved.task, saved.classes, saved.row)
    outputs = answer(saved, rows)
    found = {} if rows.y is None else figures(saved, outputs, rows.y)
    _write(Path(given.out), written(saved, outputs))
    say = _as_json if given.json else _as_text
    print(say(len(outputs), given.out, found, saved.about))
    return 0


def _write(path: Path, content: bytes) -> None:
    from node.vectors import replace_file  # noqa: PLC0415

    try:
        replace_file(path, (content,), durable=False)
    except OSError as error:
        raise ConfigError(f"--out {shown(str(path))} can not be written: {reason(error)}") from error


def _as_json(rows: int, out: str, found: Mapping[str, float | None], about: Mapping[str, object]) -> str:
    model = {key: about.get(key) for key in ("base_digest", "generation", "participants", "privacy")}
    return json.dumps(
        {"event": "predicted", "rows": rows, "out": out, "metrics": found or None, "model": model}
    )


def _as_text(rows: int, out: str, found: Mapping[str, float | None], about: Mapping[str, object]) -> str:
    from node.privacy import ledger_text  # noqa: PLC0415

    privacy = about.get("privacy")
    base, generation, updates = (about.get(key) for key in ("base_digest", "generation", "participants"))
    told = (f"{name} {'not defined' if value is None else f'{value:.4f}'}" for name, value in found.items())
    lines = [f"model: base {str(base)[:16]} of generation {generation}, the mean of {updates} updates"]
    if isinstance(privacy, dict):
        lines.append(ledger_text(privacy))
    lines.append(f"predictions: {rows} rows in {out}")
    lines.append(f"metrics: {', '.join(told) if found else 'none, as the data has no target'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
