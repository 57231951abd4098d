"""One cell, in a child process. The parent reads its lines and finds its outcome on the shelf."""

from __future__ import annotations

import traceback

from node.errors import UserError, reason
from scenarios.engines.clock import clocked
from scenarios.engines.inline import CellJob
from scenarios.engines.room import LocalRoom
from scenarios.frame.work import round_line
from scenarios.study.threads import one_thread


def run_cell(job: CellJob) -> int:
    """Replay one cell: print a line per round, put the outcome on the shelf, return the exit status."""
    try:
        with one_thread():
            outcome = clocked(
                lambda tell: job.cell.replay(LocalRoom(job.place.data_dir, job.threads, tell)), say
            )
    except UserError:
        raise
    except Exception as error:
        traceback.print_exc()  # the parent shows only the last line of the log
        raise UserError(reason(error)) from error
    job.place.shelf.put(job.cell, outcome)
    return 0


def say(number: int, figure: float) -> None:
    """Print a round's line for the parent."""
    print(round_line(number, figure), flush=True)
