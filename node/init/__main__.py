"""`python -m node.init`: looks at data and writes a task for it that runs at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from node.cli.error_handling import guarded, print_error
from node.cli.sigint import leave
from node.errors import one_line
from node.init.options import InitOptions, command_line, parse_init

if TYPE_CHECKING:
    from node.init.guess import TargetKind
    from node.init.look import Look


__all__ = ["command_line", "main"]


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status: 0 written, 2 bad arguments or data, 130 interrupted."""
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    options = parse_init(argv, asking=sys.stdin.isatty())
    print(f"starting: a look at {one_line(str(options.data))}", flush=True)
    found = _looked(options)
    from node.init.write import write_task  # noqa: PLC0415 - loads torch: only once the data are checked

    print("\n".join(write_task(options, found)))
    return 0


def _looked(options: InitOptions) -> Look:
    from node.init.look import look  # noqa: PLC0415 - loads pyarrow: only once the arguments are checked
    from node.task.scaling import by_range, by_rows  # noqa: PLC0415 - loads numpy

    kind, scaling = cast("TargetKind", options.target_kind), by_range if options.agree else by_rows
    return look(options.data, options.target, kind, options.leave_out, scaling, options.asked, options.person)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
