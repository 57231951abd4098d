"""The options of `python -m node.predict`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from node.cli.options import DEBUG, option, reachable_path, switch
from node.options import cells_option
from node.storage.whole_files import begins_with
from node.system.errors import ConfigError, reason, shown

PREDICTIONS, FOUND = Path("predictions.csv"), Path("predictions")
"""Where predictions go if nobody says so: those of rows, and what a learner's own program writes."""
_BEGINNING = b"row,prediction"
"""How a file that this command wrote begins; such a file may be replaced."""


def _out(written: str, place: str) -> Path:
    """Returns the path; ConfigError if it would replace anything but predictions, such as a device."""
    path = reachable_path(written, place)
    try:
        if not path.exists() or path.is_dir() or (path.is_file() and begins_with(path, _BEGINNING)):
            return path
    except OSError as error:
        raise ConfigError(f"--out {shown(str(path))} cannot be read: {reason(error)}") from error
    raise no_predictions(path)


def no_predictions(out: Path) -> ConfigError:
    """The error of what is there and is not to be replaced."""
    return ConfigError(f"--out {shown(str(out))} exists and is not a file of predictions; give another")


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
    encoder: str | None = option(
        "where the sentence encoder is that the task's columns of text name: its folder, or package:NAME",
        metavar="WHERE",
    )
    weights: Path | None = option(
        "the task's model.weights, for a model whose large fixed tensors come from there",
        reachable_path,
        metavar="FILE",
    )
    out: Path | None = option(
        f"the output. Default: {PREDICTIONS}; of a learner, whose output is a folder, {FOUND}",
        _out,
        metavar="FILE",
    )
    explain: bool = switch(
        "also write what each column adds to a row's prediction, of an additive model. Default: no"
    )
    json: bool = switch("print one JSON object. Default: no")
    debug: bool = switch(DEBUG)
