"""`python -m node.init`: looks at data and writes a task for it that runs at once."""

from __future__ import annotations

import sys

from node.cli.command import Command
from node.init.options import InitOptions, command_line, parse_init
from node.system.errors import one_line


def _run(options: InitOptions) -> int:
    from node.init.look_by_options import looked  # noqa: PLC0415 - loads pyarrow: only once the arguments are checked

    found = looked(options)
    if options.statistics:
        from node.init.statistics import write_statistics  # noqa: PLC0415 - likewise

        print("\n".join(write_statistics(options, found)))
        return 0
    from node.init.write import write_task  # noqa: PLC0415 - loads torch: only once the data are checked

    print("\n".join(write_task(options, found)))
    return 0


main = Command(
    command_line,
    lambda argv: parse_init(argv, asking=sys.stdin.isatty()),
    _run,
    lambda options: f"a look at {one_line(str(options.data))}",
)
main.start(__name__)
