"""Folders of made-up runs, as a node leaves them."""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.page.server import node_view
from node.observe.kept_view import VERSION
from node.observe.views import NodeView, as_json, document
from node.storage.folder_lock import HISTORY, VIEW

AT = 1_790_000_000.0


def run_in(path: Path, view: NodeView | None = None, at: float = AT, **changed: object) -> Path:
    """Writes a run into a new folder: its view as of `at` Unix seconds, and its history."""
    view = replace(node_view(peers=3, ended=6) if view is None else view, **changed)
    path.mkdir(parents=True)
    lines = [json.dumps(one.as_json()) for one in view.history]
    (path / HISTORY).write_text("".join(f"{line}\n" for line in lines))
    values = {"version": VERSION, "at": at, **document(replace(view, history=()))}
    (path / VIEW).write_text(as_json(values))
    return path
