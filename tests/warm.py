"""The one warm parent of a pytest's child processes, with all that any of them loads.

Whoever warms a parent first chooses what it has: a node that a test starts from the parent of a replay would
load itself, in seconds.
"""

from scenarios.engines import inline
from scenarios.frame.children import PRELOAD, warm_up

COMMANDS = ("node.__main__", "node.tracker.__main__", "node.tracker.serve")
WORK = ("agree.run", "data.reading", "desk.serve", "invite.run", "join.run", "stats.run")
"""What the others load once they know what to do."""


def warm_parent() -> None:
    """Starts it, unless it runs."""
    warm_up(
        (
            *PRELOAD,
            *inline.PRELOAD,
            "pytest",
            "pytest.__main__",
            *COMMANDS,
            *(f"node.{name}" for name in WORK),
            "tests.e2e.dying_peer",
        )
    )
