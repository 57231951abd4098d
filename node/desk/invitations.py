"""The command lines with which people come together: invite, join, start and members."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from node.desk.command_line import CommandLine, path_word, plain_word
from node.desk.folder import Folder
from node.desk.form import Form, Garbage
from node.desk.swarm_views import RUNS
from node.desk.views import task_of, task_text
from node.storage.plain import restored
from node.storage.whole_files import replace_file
from node.system.errors import ConfigError
from protocol.invitation.words import read_code

HABITS = ".murmuration-desk.json"
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Habits:
    """What the inviter typed last, for the next time: relays with their words, and the own name."""

    relay: str = ""
    me: str = ""


def kept_habits(folder: Folder) -> Habits:
    """Returns what was typed last; nothing if there is nothing, or nothing that can be read."""
    try:
        with (folder.path / HABITS).open("rb") as file:
            return restored(Habits, json.loads(file.read(_MOST_BYTES)))
    except (OSError, ValueError, RecursionError):
        return Habits()


def invite_line(folder: Folder, form: Form) -> CommandLine:
    """Invites people, each by a code; keeps relays and own name for the next time. Raises ConfigError."""
    task = folder.inside(form.text("task"), "task")
    data = folder.inside(form.text("data"), "data")
    habits = Habits(form.text("relay"), form.text("me"))
    names = tuple(filter(None, form.texts("names")))
    if not names:
        raise ConfigError("nobody is named; allowed: the names of the others, one on each line")
    words = [
        path_word(task),
        *(("--data", str(data)), ("--me", habits.me)),
        *(("--relay", each) for each in habits.relay.split() or [""]),
        *(plain_word(name, "the name") for name in names),
    ]
    name = task_of(str(task), task_text(folder.path / task)).task.name
    line = CommandLine("invite", words, folder=str(RUNS / name))
    line.read()
    replace_file(folder.path / HABITS, (json.dumps(asdict(habits)).encode(),), durable=False)
    return line


def join_line(folder: Folder, form: Form) -> CommandLine:
    """Joins by a code, whose words are checked here: a slip costs no try. Raises ConfigError."""
    written, data = form.text("code").lower(), folder.inside(form.text("data"), "data")
    try:
        code = read_code(written)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    words = [plain_word(str(code), "the code"), ("--data", str(data))]
    switches = ("--allow-code",) if form.flag("allow-code") else ()
    return CommandLine("join", words, switches, room=code.room)


def later_line(folder: Folder, form: Form) -> CommandLine:
    """Invites one more to a swarm that learns already. Raises ConfigError."""
    run = folder.inside(form.text("run"), "run")
    words = [path_word(run), plain_word(form.text("name"), "the name")]
    return CommandLine("invite", words, folder=str(run))


def start_line(folder: Folder, form: Form) -> CommandLine:
    """Goes on with a swarm where its folder stands. Raises ConfigError."""
    run = folder.inside(form.text("run"), "run")
    return CommandLine("start", [path_word(run)], folder=str(run))


def members_line(folder: Folder, form: Form) -> CommandLine:
    """Takes a member back, or removes it, for this node alone. Raises ConfigError."""
    run, does = folder.inside(form.text("run"), "run"), form.text("does")
    if does not in {"accept", "remove"}:
        raise Garbage("does is refused; allowed: accept, remove")
    return CommandLine("members", [path_word(run), (f"--{does}", form.text("name"))], folder=str(run))


LINES: Mapping[str, Callable[[Folder, Form], CommandLine]] = {
    "invite": invite_line,
    "later": later_line,
    "join": join_line,
    "start": start_line,
    "members": members_line,
}
