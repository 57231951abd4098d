"""What inviter and joiner read about a task, a list and a seat."""

from __future__ import annotations

from collections.abc import Iterable

from node.system.errors import counted
from node.task.data_schema import TableSchema
from node.task.sections import Task
from protocol.invitation.roster import Member
from protocol.invitation.words import Code, key_words
from protocol.wire.ids import Key


def task_line(task: Task) -> str:
    """What is learned from what, and what protects the rows."""
    return f"Task {task.task.name}: {_subject(task)}; {_privacy(task)}"


def _subject(task: Task) -> str:
    schema = task.data.schema
    match schema:
        case TableSchema():
            return f"predicts {schema.target.name} from {counted(len(schema.columns), 'column')}"
        case None:
            return "learns from tables of numbers"
    return f"learns from rows of the shape {' x '.join(map(str, schema.shape))}"


def _privacy(task: Task) -> str:
    privacy = task.privacy
    if privacy.mechanism == "none":
        return "no noise: sums hide single updates, and nothing bounds what the model remembers"
    terms = f"{privacy.mechanism}, epsilon {privacy.epsilon:g} for each of your {task.unit}s"
    if privacy.honest is None:
        return terms
    are = "is" if privacy.honest == 1 else "are"
    return f"{terms}, if at least {counted(privacy.honest, 'other')} {are} honest"


def lost_text(name: str, code: Code | None) -> str:
    """That another inviter has the room of a member, and its new code; None: the list is closed."""
    why = f"the relay has started again, and another inviter has the room of {name} now"
    if code is None:
        return f"{why}: it cannot get the list any more; learn without it, or invite all anew"
    return f"{why}: its code is void. Its new one:  murmuration join {code}"


def member_lines(members: Iterable[Member], remarks: dict[Key, str]) -> list[str]:
    """A table of names, words and a remark for each member, by name."""
    rows = [(m.name, key_words(m.key), remarks.get(m.key, "")) for m in sorted(members, key=lambda m: m.name)]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return [
        f"  {name:<{widths[0]}}   {words:<{widths[1]}}   {remark}".rstrip() for name, words, remark in rows
    ]
