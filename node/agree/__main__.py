"""`python -m node.agree TASK ...`: peers agree on scales and lists by a secure sum before they learn."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from node.cli.commands import task_comes_first, usage
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import leave
from node.errors import ConfigError, one_line, shown
from node.logs import complain, logging_to
from node.options import NodeOptions, parse_arguments, reachable_path
from node.options import command_line as node_command_line

_CALL = (
    "TASK --data PATH (--peers HOST:PORT,... | --tracker KEY@URL)",
    "[--write FILE.toml] [--force] [--without NAME ...] [--leave-out-missing] [--also-class NAME ...]",
    "[any other option of python -m node]",
)
_HELP = """\
Peers agree on means, spreads and category lists over the rows of all of them, by one secure sum of counts,
sums and squares: nobody sees another's. TASK is a FILE.toml with public ranges, the same at every peer, as
python -m node.init --agree writes it. With privacy on, noise in every peer's sums protects each row; a share
of the task's budget ([agreement] share) pays for it. Every peer writes the same task, for python -m node.

  --write FILE.toml   the file for the agreed task. Default: TASK-agreed.toml beside TASK
  --force             replace that file if it exists
  --without NAME      do not wait for this peer, named as in --peers or --names; repeatable. All peers must
                      say it. Default: an agreement needs all of --peers
  --leave-out-missing leave out of the agreed task what columns some peer's file lacks; how many lack each
                      is told to all. All peers must say it
  --also-class NAME   a class that some peer has and the task lacks, declared to all: the agreed task has
                      it, and a model with one more output; repeatable. All peers must say the same

exit status: 0 agreed, 1 no agreement, 2 bad arguments or data, 130 interrupted

example, at each of three peers, each with data of its own:
  python -m node.agree ward.toml --data ward.csv --peers 10.0.0.5:9001,10.0.0.7:9001,10.0.0.9:9001 --open
  python -m node.check ward-agreed.toml --data ward.csv"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status.

    0: agreed; 1: no agreement; 2: bad arguments or data; 130: interrupted.
    """
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    if not task_comes_first(argv, f"{usage('node.agree', *_CALL)}\n\n{_HELP}"):
        return 0 if argv else 2
    written, without, rest = _written(argv[0], argv[1:])
    options = parse_arguments(["--task", argv[0], *rest])
    with logging_to(sys.stderr, options.log):
        return guarded(
            lambda: _agree(options, written, without), options.debug, complain(options.log, "node")
        )


def command_line() -> NodeParser:
    """Returns the parser of what may follow the task: a node's options, and those that `_written` reads."""
    parser = node_command_line()
    parser.add_argument("--write", metavar="FILE.toml")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--without", metavar="NAME", action="append")
    parser.add_argument("--leave-out-missing", action="store_true")
    parser.add_argument("--also-class", metavar="NAME", action="append")
    return parser


def _agree(options: NodeOptions, written: Path, without: Sequence[str]) -> int:
    if not options.json:
        print(f"starting: an agreement for {one_line(str(written))}", flush=True)
    from node.places import check_places  # noqa: PLC0415 - loads numpy, and what follows torch

    check_places(options)
    from node.agree.run import agree  # noqa: PLC0415 - loads torch: only once the arguments are checked

    return agree(options, written, without)


def _written(task: str, argv: Sequence[str]) -> tuple[Path, list[str], list[str]]:
    """Returns where to write the agreed task, whom nobody waits for, and the node's own options.

    Raises ConfigError.

    What all peers must say alike becomes keys of the task, which peers compare.
    """
    rest, target, force = list[str](), None, False
    classes, without = list[str](), list[str]()
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--write":
            target = value if equals else next(words, "")
        elif word == "--force":
            force = True
        elif word == "--leave-out-missing":
            rest += ["--set", "agreement.leave_out_missing=true"]
        elif name == "--without":
            without.append(value if equals else next(words, ""))
        elif name == "--also-class":
            classes.append(value if equals else next(words, ""))
        else:
            rest.append(word)
    if classes:
        rest += ["--set", f"agreement.classes={json.dumps(classes, ensure_ascii=False)}"]
    path = Path(task)
    own = str(path.with_name(f"{path.stem}-agreed.toml")) if target is None else target
    written = reachable_path(own, "--write")
    if written.suffix != ".toml":
        raise ConfigError(f"--write {shown(own)} is refused; allowed: a FILE.toml")
    if written.exists() and not force:
        raise ConfigError(f"--write {shown(own)} exists already; give another, or --force to replace it")
    return written, without, rest


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
