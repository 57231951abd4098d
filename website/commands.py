"""The commands and their flags, from the parsers themselves."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO

from node.cli.commands import COMMANDS
from node.cli.sigint import INTERRUPTED, SCRIPT
from node.system.errors import ConfigError, UserError
from website.tables import code, table


class _Found(BaseException):
    """Carries a parser out of the command that made it, past everything that handles errors."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def command_modules() -> list[str]:
    """The modules of node that are commands."""
    return [command.module for command in COMMANDS if command.module.startswith("node.")]


Help = argparse.ArgumentParser | str


def help_of(main: Callable[[Sequence[str]], object]) -> Help:
    """What a command does with --help: the parser that it asks, or the text that it prints itself."""
    said = StringIO()
    with _help_is_caught(), redirect_stdout(said):
        try:
            main(["--help"])
        except _Found as found:
            return found.parser
    return said.getvalue()


@contextmanager
def _help_is_caught() -> Iterator[None]:
    def caught(self: argparse.ArgumentParser, file: object = None) -> None:
        raise _Found(self)

    real = argparse.ArgumentParser.print_help
    argparse.ArgumentParser.print_help = caught  # type: ignore[method-assign]
    try:
        yield
    finally:
        argparse.ArgumentParser.print_help = real  # type: ignore[method-assign]


def page() -> str:
    """All commands, and how they end."""
    parts = [_command(name) for name in command_modules()]
    return "\n\n".join(["# Commands", _INTRODUCTION, _doors(), *parts, _statuses()])


_INTRODUCTION = """\
Made from the commands' own parsers: `--help` says the same. Each is started in either of two ways, which are
the same code ([more on that](../operating.md#one-command-for-all)). `make help` lists what the repository has
beside them; [scenarios](../scenarios/README.md) have a page of their own."""


def _doors() -> str:
    rows = [
        [code(f"{SCRIPT} {command.name}"), code(f"python -m {command.package}"), command.summary]
        for command in COMMANDS
    ]
    return table(["command", "the same", "what for"], rows)


def _command(module: str) -> str:
    parser = help_of(importlib.import_module(module).main)
    if isinstance(parser, str):
        name = module.removesuffix(".__main__")
        return f"## {code(f'python -m {name}')}\n\n```text\n{parser.strip()}\n```"
    said = [f"## {code(parser.prog)}", " ".join((parser.description or "").split())]
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if not isinstance(action, argparse._HelpAction)]
        if actions:
            title = group.title if group.title not in {"options", "positional arguments"} else ""
            said += [f"### {title[0].upper()}{title[1:]}" if title else "", _flags(parser, actions)]
    if parser.epilog:
        said.append(f"```text\n{parser.epilog}\n```")
    return "\n\n".join(part for part in said if part)


def _flags(parser: argparse.ArgumentParser, actions: Sequence[argparse.Action]) -> str:
    formatter = parser._get_formatter()
    rows = [
        [code(_written(action)), formatter._expand_help(action) if action.help else ""] for action in actions
    ]
    return table(["flag", "meaning"], rows)


def _written(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    value = value if isinstance(value, str) else " ".join(value)
    names = ", ".join(action.option_strings)
    return f"{names} {value}".strip() if names else str(value or action.dest)


def _statuses() -> str:
    failed, refused = UserError("").status, ConfigError("").status
    rows = [
        ["0", "done"],
        [str(failed), "failed at run time; one line on standard error says what, and what to do"],
        [str(refused), "bad arguments, task or data; nothing was written"],
        [str(INTERRUPTED), "interrupted by Ctrl-C or SIGTERM; state is kept, the same command line goes on"],
    ]
    head = "## Exit statuses\n\nA traceback is shown with `--debug` only.\n\n"
    return head + table(["status", "meaning"], rows)
