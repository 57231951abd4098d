"""The task that node.init proposes for a file, as its command writes it, without what it prints."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from node.errors import UserError
from node.init.__main__ import main as init


def proposed(data: Path, out: Path, *options: str) -> Path:
    """Write the task for `data` to `out`, and return that; raises UserError, with the output, if it fails."""
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        status = init(["--data", str(data), "--out", str(out), *options])
    if status != 0:
        raise UserError(f"node.init ended with {status}: {told.getvalue()}")
    return out
