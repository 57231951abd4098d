"""The options of `murmuration join`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.options import DEBUG, argument, option, reachable_path, switch
from node.system.errors import ConfigError
from node.task.sections import BLANK_PERSON
from protocol.invitation.words import Code, read_code


def code_of(written: str, place: str) -> Code:
    """Reads a code; its words are checked here, so a typing error costs no try. Raises ConfigError."""
    try:
        return read_code(written)
    except ValueError as error:
        raise ConfigError(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """The code, and the own data."""

    code: Code = argument("the code that you were given", code_of, metavar="CODE")
    data: Path = option("your own rows, as for a node", reachable_path, required=True, metavar="PATH")
    out: Path | None = option(
        "the folder of the run. Default: runs/ and the task's name", reachable_path, metavar="DIR"
    )
    cells: str | None = option("how your own file is written, as for a node", metavar="KEY=VALUE[,...]")
    blank_person: str | None = option("as for a node", choices=BLANK_PERSON)
    encoder: str | None = option("as for a node", metavar="WHERE")
    show_task: bool = switch("print the whole task before the question. Default: no")
    allow_code: bool = switch(
        "run code of this machine that the inviter's task names by import path. Default: refuse such a task"
    )
    yes: bool = switch("answer each question by yes. Default: ask at the terminal")
    debug: bool = switch(DEBUG)
