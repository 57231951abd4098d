"""The one warm parent of a pytest's child processes, with all that any of them loads.

Whoever warms a parent first chooses what it has: a node that a test starts from the parent of a replay would
load itself, in seconds.
"""

from scenarios.engines import inline, nodes
from scenarios.frame.children import PRELOAD, warm_up

COMMANDS = ("node.__main__", "node.tracker.__main__", "node.tracker.serve")


def warm_parent() -> None:
    """Starts it, unless it runs."""
    warm_up(
        (
            *PRELOAD,
            *inline.PRELOAD,
            *nodes.PRELOAD,
            "pytest",
            "pytest.__main__",
            *COMMANDS,
            "tests.e2e.dying_peer",
        )
    )
