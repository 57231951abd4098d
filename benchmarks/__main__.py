"""The command line: `python -m benchmarks NAME [--quick] [--json FILE] [...]`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from benchmarks.aggregators import AGGREGATORS
from benchmarks.allocation import ALLOCATION
from benchmarks.audit.benchmark import AUDIT
from benchmarks.calibration import CALIBRATION
from benchmarks.clients import CLIENTS
from benchmarks.floor import FLOOR
from benchmarks.machine import machine, versions
from benchmarks.memory.benchmark import MEMORY
from benchmarks.noise import NOISE
from benchmarks.page.benchmark import PAGE
from benchmarks.rounds import ROUNDS
from benchmarks.secagg.benchmark import SECAGG
from benchmarks.shares import SHARES
from benchmarks.siege.benchmark import SIEGE
from benchmarks.spec import Figure, Row
from benchmarks.tls import TLS
from node.cli.exit import guarded
from node.cli.sigint import begun, leave
from node.errors import ConfigError, UserError, reason

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        AGGREGATORS,
        ALLOCATION,
        AUDIT,
        CALIBRATION,
        CLIENTS,
        FLOOR,
        MEMORY,
        NOISE,
        PAGE,
        ROUNDS,
        SECAGG,
        SHARES,
        SIEGE,
        TLS,
    )
}
DEBUG = "--debug"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, raised as ConfigError."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError instead of printing the usage."""
        raise ConfigError(f"{message}; see `python -m benchmarks --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says. Exit status: 0 ran, 1 failed, 2 bad arguments, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    command = shlex.join(("python", "-m", "benchmarks", *arguments))
    return guarded(lambda: _run(parse(arguments), command), DEBUG in arguments, _complain)


def _complain(text: str, status: int) -> None:
    print(f"benchmarks: {text}", file=sys.stderr)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line as argparse has it. Raises ConfigError."""
    parser = Parser(prog="python -m benchmarks", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME", parser_class=Parser)
    commands.add_parser("list", help="the name and a line for every benchmark")
    for benchmark in BENCHMARKS.values():
        command = commands.add_parser(
            benchmark.name, help=benchmark.summary, description=benchmark.summary, allow_abbrev=False
        )
        command.add_argument("--quick", action="store_true", help="smaller, to see that it works")
        command.add_argument(
            "--json", type=Path, metavar="FILE", help="also write a JSON list of all figures"
        )
        command.add_argument(DEBUG, action="store_true", help="tracebacks of errors")
        benchmark.add_options(command)
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace, command: str) -> int:
    begun()
    if arguments.name == "list":
        for benchmark in BENCHMARKS.values():
            print(f"{benchmark.name:12} {benchmark.summary}")
        return 0
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise ConfigError(f"--json {arguments.json}: there is no such folder")
    found_one_by_one = BENCHMARKS[arguments.name].run(arguments)
    ran_on = {"command": command, "machine": machine(), "versions": versions()}
    print(ran_on["machine"])
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    records: list[dict[str, object]] = []
    for found in found_one_by_one:
        print(found.text if isinstance(found, Row) else line(found), flush=True)
        records += [{**record, **ran_on} for record in _recorded(found)]
        if arguments.json is not None:
            _write(arguments.json, records)
    return 0


def _recorded(found: Figure | Row) -> Iterator[Mapping[str, object]]:
    """What the JSON file says about it."""
    if isinstance(found, Figure):
        yield {**asdict(found), "holds": found.holds}
    elif found.record is not None:
        yield found.record


def line(found: Figure) -> str:
    """A figure for the terminal."""
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


if __name__ == "__main__":
    leave(main())
