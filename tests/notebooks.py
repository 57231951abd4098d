"""Runs the cells of a notebook in order, as a notebook does: in one namespace, inside a running event loop.

    python -m tests.notebooks examples/quickstart.ipynb     writes what the cells print into the notebook

A cell may await at its top level. Unlike a kernel it shows nothing for a bare expression, so the cells print.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def code_cells(path: Path) -> list[Cell]:
    """Returns the cells with code, in order."""
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


async def run_cells(path: Path) -> list[str]:
    """Runs all cells; returns what each of them printed. An error of a cell is raised."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    said = []
    for number, cell in enumerate(code_cells(path), 1):
        output = io.StringIO()
        code = compile(
            "".join(cell["source"]), f"cell {number} of {path.name}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        with redirect_stdout(output):
            result = eval(code, namespace)
            if inspect.iscoroutine(result):
                await result
        said.append(output.getvalue())
    return said


def write_outputs(path: Path) -> None:
    """Runs a notebook and writes what its cells printed into it."""
    said = iter(asyncio.run(run_cells(path)))
    notebook = json.loads(path.read_text("utf-8"))
    numbered = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(numbered, 1):
        text = next(said)
        cell["execution_count"] = number
        cell["outputs"] = (
            [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}]
            if text
            else []
        )
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write_outputs(Path(sys.argv[1]))
