"""What the page shows of statistics that are over: table one, from the files in a run's folder."""

from __future__ import annotations

from pathlib import Path

from node.cli.written_file import STATISTICS_ENDING
from node.desk.first_rows import first_rows
from node.storage.swarm_file import TASK
from node.system.errors import UserError

REPORT = f"{Path(TASK).stem}{STATISTICS_ENDING}"
"""The report, in the folder of a swarm."""
_TABLE_ONE = f"{Path(REPORT).stem}-table1.csv"
_MOST_ROWS = 500


def statistics_view(folder: Path, name: str) -> dict[str, object] | None:
    """Returns table one, and the report's path by the `name` of its folder; None if there is none."""
    if not (folder / REPORT).is_file():
        return None
    try:
        table = first_rows(folder / _TABLE_ONE, _MOST_ROWS)
    except UserError:
        return None
    return {"file": f"{name}/{REPORT}", "columns": table.columns, "rows": table.rows}
