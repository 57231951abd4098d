"""The options of `murmuration invite`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from node.cli.options import DEBUG, argument, option, reachable_path, repeated, switch
from node.system.errors import ConfigError, one_line, shown
from node.task.sections import BLANK_PERSON
from protocol.invitation.roster import MOST_RELAYS
from protocol.invitation.words import read_relay
from protocol.relay.word import read_word
from protocol.wire.fields import LONGEST_NAME, is_name


@dataclass(frozen=True)
class RelayWord:
    """A relay that may be used to invite. `endpoint`: HOST:PORT; `word`: what its owner gave out."""

    endpoint: str
    word: str


def relay_with_word(written: str, place: str) -> RelayWord:
    """Reads HOST[:PORT]#WORD. Raises ConfigError."""
    host, _, written_word = written.rpartition("#")
    word = read_word(written_word)
    try:
        endpoint = read_relay(host)
    except ValueError:
        endpoint = ""
    if word is None or not endpoint:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: HOST#WORD as the relay prints it, such as "
            "relay.uni.example#v8k2-qm4t"
        )
    return RelayWord(endpoint, word)


def check_first(options: InviteOptions) -> None:
    """Raises ConfigError unless the options say all that a first invitation needs."""
    needed = {"--data PATH": options.data, "--me NAME": options.me, "--relay HOST#WORD": options.relays}
    if missing := [name for name, value in needed.items() if not value]:
        raise ConfigError(f"{', '.join(missing)} is missing: an invitation to a task needs it")
    check_relays(options.relays)


def check_later(options: InviteOptions) -> None:
    """Raises ConfigError for options that say what a swarm which learns already has."""
    given = {"--data": options.data, "--me": options.me, "--relay": options.relays, "--out": options.out}
    given |= {"--cells": options.cells, "--blank-person": options.blank_person}
    given |= {"--encoder": options.encoder}
    for name in [name for name, value in given.items() if value]:
        raise ConfigError(f"{name} is refused: the swarm in {one_line(str(options.task))} has that already")


def check_relays(relays: tuple[RelayWord, ...]) -> None:
    """Raises ConfigError for too many relays, or for one that is given twice."""
    endpoints = [relay.endpoint for relay in relays]
    if len(relays) > MOST_RELAYS:
        raise ConfigError(f"{len(relays)} relays are given; allowed: at most {MOST_RELAYS}")
    if twice := next((each for each in endpoints if endpoints.count(each) > 1), None):
        raise ConfigError(f"--relay names {twice} twice; give each relay once")


def name_of(written: str, place: str) -> str:
    """Reads the name of a member. Raises ConfigError."""
    if not is_name(written):
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: 1 to {LONGEST_NAME} printable characters"
        )
    return written


@dataclass(frozen=True, kw_only=True)
class InviteOptions:
    """What to learn, from which own data, with whom and by which relay."""

    task: Path = argument(
        "a task file, as murmuration init writes it; or the folder of a swarm that learns already, to invite "
        "later members",
        reachable_path,
        metavar="TASK.toml|FOLDER",
    )
    names: tuple[str, ...] = argument("the others, a name each", name_of, nargs="+", metavar="NAME")
    data: Path | None = option("your own rows, as for a node", reachable_path, metavar="PATH")
    me: str | None = option("your own name, as the others will read it", name_of, metavar="NAME")
    relays: tuple[RelayWord, ...] = repeated(
        "a relay and its word, as whoever runs it gave them to you: murmuration tracker --relay prints them. "
        f"Up to {MOST_RELAYS}, in order of use: if one fails, the next one carries",
        relay_with_word,
        name="relay",
        metavar="HOST#WORD",
    )
    out: Path | None = option(
        "the folder of the run. Default: runs/ and the task's name", reachable_path, metavar="DIR"
    )
    cells: str | None = option("how your own file is written, as for a node", metavar="KEY=VALUE[,...]")
    blank_person: str | None = option("as for a node", choices=BLANK_PERSON)
    encoder: str | None = option("as for a node", metavar="WHERE")
    yes: bool = switch("answer each question by yes. Default: ask at the terminal")
    debug: bool = switch(DEBUG)
