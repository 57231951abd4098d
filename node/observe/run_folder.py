"""A run as its folder tells it, finished or running: the source of a page without a node.

    view.json      what the node showed last (node.observe.kept_view)
    history.jsonl  the rounds
    summary.json   the end of the run, for a folder that an earlier version wrote

The files may come from somebody else: their sizes are bounded, and each field is checked.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from node.observe.history_reader import Rounds
from node.observe.kept_view import EVERY_S, VERSION
from node.observe.views import NodeView
from node.runtime.record.figures import AGGREGATED, Record
from node.storage.folder_lock import HISTORY, MODELS, SUMMARY, VIEW
from node.storage.plain import restored
from node.system.errors import ConfigError, UserError, one_line, reason

MODEL = MODELS[0]
MAX_FILE_BYTES = 8_000_000
SILENT_S = 4 * EVERY_S
"""A node that has not written its view for this long has ended without a goodbye, or hangs."""
MAX_RUNS = 8
"""The most runs side by side: as many as there are colours that a reader can tell apart."""
_FILES = (VIEW, HISTORY, SUMMARY)


class RunFolder:
    """The folder of one run; it follows the files as they change."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        """`path` is one of `found_runs`; `now` returns Unix seconds."""
        self.path = path
        self.ended = False
        self._now = now
        self._rounds = Rounds(path / HISTORY)

    def now(self) -> float:
        """Returns Unix seconds, by the clock of this machine."""
        return self._now()

    async def view(self) -> NodeView:
        """Returns the current view. Raises UserError for a damaged file."""
        return await asyncio.to_thread(self.read)

    def read(self) -> NodeView:
        """Reads the folder's files. Raises UserError for a damaged file."""
        rounds = self._rounds.read()
        kept = _values(self.path / VIEW)
        if kept is None:
            view = _of_summary(_values(self.path / SUMMARY), rounds, self.path)
        else:
            view = self._restored(kept)
        return replace(
            view,
            round=max(view.round, rounds[-1].ended if rounds else 0),
            history=rounds,
            model_bytes=size_of(self.path / MODEL),
            folder=one_line(str(self.path)),
        )

    def _restored(self, kept: Mapping[str, object]) -> NodeView:
        path, at = self.path / VIEW, kept.get("at")
        if kept.get("version") != VERSION or not isinstance(at, int | float):
            raise UserError(
                f"{path} has the version {one_line(str(kept.get('version')))[:20]}; allowed: {VERSION}; use "
                "the version of this program that wrote it, or move the file away"
            )
        try:
            view = restored(NodeView, {**kept, "history": []})
        except ValueError as error:
            raise _damaged(path, error) from error
        is_silent = not view.ended and self._now() - at > SILENT_S
        return replace(view, silent_since=float(at) if is_silent else None)


def found_runs(paths: Sequence[Path]) -> list[Path]:
    """Returns the folders of runs: each given one that has a run, else those directly in it that do.

    Raises ConfigError if there is no run in one of them, or if there are more than MAX_RUNS.
    """
    found: list[Path] = []
    for path in paths:
        try:
            below = [path] if has_run(path) else sorted(one for one in path.iterdir() if has_run(one))
        except OSError as error:
            raise ConfigError(
                f"{one_line(str(path))} cannot be read ({reason(error)}); give the --out folder of a node"
            ) from error
        if not below:
            raise ConfigError(
                f"{one_line(str(path))} holds no run: neither it nor a folder in it has {', '.join(_FILES)}; "
                "give the --out folder of a node"
            )
        found += below
    if len(found) > MAX_RUNS:
        raise ConfigError(
            f"{len(found)} runs are given; allowed: at most {MAX_RUNS} side by side; name fewer"
        )
    return list(dict.fromkeys(found))


def has_run(path: Path) -> bool:
    """Whether a folder itself holds a run."""
    return any((path / name).is_file() for name in _FILES)


def size_of(path: Path) -> int | None:
    """Returns the bytes of a file; None if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def _values(path: Path) -> dict[str, object] | None:
    """Returns the object in a JSON file; None if there is no file. Raises UserError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {reason(error)}; give this user the right to it") from error
    if len(text) > MAX_FILE_BYTES:
        raise UserError(f"{path} is larger than {MAX_FILE_BYTES} bytes, which no run writes; move it away")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _damaged(path, error) from error
    if not isinstance(found, dict):
        raise _damaged(path, ValueError("it is no object"))
    return found


def _damaged(path: Path, error: ValueError) -> UserError:
    return UserError(f"{path} is damaged: {one_line(str(error))[:200]}; move it away, or bring back a copy")


def _of_summary(summary: Mapping[str, object] | None, rounds: tuple[Record, ...], path: Path) -> NodeView:
    """Returns the view of a folder without a view.json, which an earlier version wrote."""
    known = summary or {}

    def text(name: str, otherwise: str) -> str:
        return str(known.get(name) or otherwise)

    def whole(name: str) -> int:
        value = known.get(name)
        return value if isinstance(value, int) else 0

    privacy, last = known.get("privacy"), rounds[-1].ended if rounds else 0
    return NodeView(
        kind="node",
        about={"task": text("task", path.name), "out": str(path)},
        task=text("task", path.name),
        key=text("key", ""),
        round=max(whole("rounds"), last),
        rounds=max(whole("rounds"), last),
        phase="idle",
        phase_since=0.0,
        spent_s={},
        waiting_for=(),
        until=None,
        base_digest=text("base_digest", ""),
        generation=sum(one.outcome == AGGREGATED for one in rounds),
        sent={"all": whole("bytes_sent")},
        received={"all": whole("bytes_received")},
        dropped={},
        peers=(),
        privacy=privacy if isinstance(privacy, dict) else None,
        accuracy_of=text("accuracy_of", "test"),
        remarks=(),
        history=rounds,
        ended=True,
    )
