"""The command line: `python -m benchmarks NAME [--quick] [--json FILE] [...]`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.catalogue import BENCHMARKS
from benchmarks.machine import machine, versions
from benchmarks.spec import Figure, Row
from node.cli.command import Command
from node.cli.commands import program
from node.cli.parser import NodeParser
from node.cli.sigint import begun
from node.system.errors import ConfigError, UserError, reason

DEBUG = "--debug"


def _complain(text: str, status: int) -> None:
    print(f"benchmarks: {text}", file=sys.stderr)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; load only the benchmark that it names. Raises ConfigError."""
    called = argparse.Namespace(called=shlex.join(("python", "-m", "benchmarks", *argv)))
    return make_parser([word for word in argv if word in BENCHMARKS][:1]).parse_args(argv, called)


def make_parser(with_options: Collection[str] = BENCHMARKS) -> NodeParser:
    """Return a parser of all benchmarks. It loads those in `with_options`, to add their options."""
    parser = NodeParser(prog=program("benchmarks"), description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME", parser_class=NodeParser)
    commands.add_parser("list", help="the name and a line for every benchmark")
    for entry in BENCHMARKS.values():
        command = commands.add_parser(
            entry.name, help=entry.summary, description=entry.summary, allow_abbrev=False
        )
        command.add_argument("--quick", action="store_true", help="smaller, to see that it works")
        command.add_argument(
            "--json", type=Path, metavar="FILE", help="also write a JSON list of all figures"
        )
        command.add_argument(DEBUG, action="store_true", help="tracebacks of errors")
        if entry.name in with_options:
            entry.load().add_options(command)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.name == "list":
        for entry in BENCHMARKS.values():
            print(f"{entry.name:12} {entry.summary}")
        return 0
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise ConfigError(f"--json {arguments.json}: there is no such folder")
    chosen = BENCHMARKS[arguments.name]
    print(f"benchmark {chosen.name}: {chosen.summary}", flush=True)
    found_one_by_one = chosen.load().run(arguments)
    begun()
    ran_on = {"command": arguments.called, "machine": machine(), "versions": versions()}
    print(ran_on["machine"])
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    records: list[dict[str, object]] = []
    for found in found_one_by_one:
        print(found.text if isinstance(found, Row) else line(found), flush=True)
        records += [{**record, **ran_on} for record in _records(found)]
        if arguments.json is not None:
            _write(arguments.json, records)
    return 0


def _records(found: Figure | Row) -> Iterator[Mapping[str, object]]:
    """Yield what the JSON file says of a figure or row."""
    if isinstance(found, Figure):
        yield {**asdict(found), "holds": found.holds}
    elif found.record is not None:
        yield found.record


def line(found: Figure) -> str:
    """Return a figure as a line for the terminal."""
    text = f"{found.case:24} {found.figure:28} {found.median:12.4g} {found.unit:14}"
    if found.samples > 1:
        text += f" [{found.min:.4g} to {found.max:.4g}, {found.samples} values]"
    targets = (("at most", found.at_most), ("at least", found.at_least))
    asked = ", ".join(f"{side} {target:.4g}" for side, target in targets if target is not None)
    if asked:
        text += f" {'✓' if found.holds else '✗'} {asked}"
    return f"{text}  {found.note}".rstrip()


def _write(path: Path, figures: list[dict[str, object]]) -> None:
    try:
        path.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise UserError(f"--json {path}: {reason(error)}") from error


main = Command(make_parser, parse, _run, complain=_complain)
main.start(__name__)
