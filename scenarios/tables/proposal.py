"""The task that node.init proposes for a file."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from node.init.__main__ import main as init
from node.system.errors import UserError


def propose_task(data: Path, out: Path, *options: str) -> Path:
    """Let node.init write a task for `data` to `out`; return `out`. Raises UserError with what it printed."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = init(["--data", str(data), "--out", str(out), *options])
    if status != 0:
        raise UserError(f"node.init ended with {status}: {printed.getvalue()}")
    return out
