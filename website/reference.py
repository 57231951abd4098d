"""The reference pages on configuration, history and summary, from the dataclasses that define them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from itertools import pairwise
from typing import Any, get_type_hints

from node.runtime.record.fields import logged, told_of
from node.runtime.record.figures import Record, Summary
from node.task.rules import is_shared, key_name, rule_of
from node.task.sections import Task
from protocol.actions import Reason
from website import words
from website.tables import code, table

_INTRODUCTION = """\
This page lists every key of a task file; it is generated from the code that reads them.
`--set section.key=value` changes a key. If **peers must agree** on a key, a node with another value reports
both values and does not take part."""


def configuration() -> str:
    """The page on every key of a task file."""
    parts = ["# Configuration", _INTRODUCTION]
    for name, section in get_type_hints(Task).items():
        rows = [_key(name, entry, get_type_hints(section)) for entry in fields(section)]
        head = ["key", "meaning", "type", "allowed", "default", "peers must agree"]
        parts += [f"## [{name}]", words.SECTIONS.get(name) or _first_line(section), table(head, rows)]
    return "\n\n".join(parts)


def _key(section: str, entry: Field[Any], types: Mapping[str, object]) -> list[str]:
    dotted = f"{section}.{key_name(entry)}"
    return [
        code(dotted),
        words.KEYS.get(dotted, ""),
        _type(types[entry.name]),
        rule_of(entry).allowed,
        _default(entry),
        "yes" if is_shared(entry) else "no",
    ]


def _default(entry: Field[Any]) -> str:
    if entry.default is MISSING and entry.default_factory is MISSING:
        return "required"
    value = entry.default if entry.default_factory is MISSING else entry.default_factory()
    if value in (None, ""):
        return "not set"
    if value == {}:
        return "none"
    return code(str(value).lower() if isinstance(value, bool) else value)


def _type(hint: object) -> str:
    text = str(getattr(hint, "__name__", hint)) if isinstance(hint, type) else str(hint)
    plain = text.replace("typing.", "").replace("collections.abc.", "").replace("NoneType", "None")
    return code(plain.replace(" | None", "").replace("tuple[str, ...]", "list of str").split("[str, Any]")[0])


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0]


def files() -> str:
    """The page on the files that a node writes."""
    about = (
        "The fields that a node writes into its `--out`, generated from the code that writes them; "
        "[the first page](../index.md#a-swarm-by-hand) lists the files of that folder."
    )
    return "\n\n".join(
        [
            "# History and summary",
            about,
            "## history.jsonl\n\nOne line per round; `Record` in Python.",
            fields_table(Record),
            "### Reasons for a fallback",
            table(["reason", "meaning"], [[code(one.value), reason_words(one)] for one in Reason]),
            "## summary.json\n\nThe whole run; `Summary` in Python.",
            fields_table(Summary),
        ]
    )


def fields_table(kind: type) -> str:
    """The table of a file's fields."""
    types = get_type_hints(kind)
    rows = [[code(entry.name), told_of(entry).words, _type(types[entry.name])] for entry in fields(kind)]
    return table(["field", "meaning", "type"], rows)


def log_fields(kind: type[Record | Summary]) -> str:
    """The fields of an event of the log, as docs/operating.md names them."""
    found = [(code(name), log.always) for name, log, _ in logged(kind)]
    always, others = (", ".join(name for name, kept in found if kept is want) for want in (True, False))
    return f"{always}; where there is one: {others}"


def reason_words(reason: Reason) -> str:
    """The docstring of a reason in the code, or its text in `words`."""
    return docstrings_of(Reason).get(reason.name) or words.REASONS.get(reason.value, "")


def docstrings_of(kind: type[Enum]) -> dict[str, str]:
    """The docstrings of an enumeration's members, by name."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    statements = body.body if isinstance(body, ast.ClassDef) else []
    found: dict[str, str] = {}
    for before, after in pairwise(statements):
        match before, after:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str() as text)):
                found[name] = text
    return found
