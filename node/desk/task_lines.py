"""A task file line by line, with what the owner may replace in a line that tells something about the data.

A replaced line loses its mark: what it says then is the owner's word, and no longer from the data.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from node.data.text.cells import number
from node.init.task_file import MARK
from node.system.errors import ConfigError, counted, shown
from node.system.toml_text import toml
from node.task.data_schema import ClassTarget, Schema
from node.task.load import read_task
from node.task.sections import Task
from node.task.table_models import TABLE_MODELS

_FIXED = {"name", "kind"}
"""Keys of a column that say which one it is."""
_HEAD = f"#   {MARK}"
"""The line that explains the mark."""
_LINEAR, _LAYERS = "inputs", "sizes"
"""The arguments of node.models that hang on the width of a row."""
_FEW = 8
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Value:
    """A value in a line that may be replaced: its key, and its text; a list has one entry on each line."""

    key: str
    text: str
    is_list: bool


@dataclass(frozen=True)
class Line:
    """A line of the file. `number` counts from 1; `says` is what a marked line tells, for people.

    A marked line has values to replace, or, if it is a comment, it may be removed.
    """

    number: int
    text: str
    marked: bool = False
    says: str = ""
    values: tuple[Value, ...] = ()
    removable: bool = False


def lines_of(text: str) -> list[Line]:
    """Returns the lines of a task file."""
    return [_line(place, line) for place, line in enumerate(text.splitlines(), 1)]


def replaced(text: str, number_: int, old: str, given: Mapping[str, str] | None) -> str:
    """Returns the text with the line of this number replaced, which must read `old`.

    `given` are the new texts of its values by key; None removes a comment. Where another number of values
    makes a row longer or shorter, the model's arguments follow. Raises ConfigError.
    """
    lines = text.splitlines()
    if not 1 <= number_ <= len(lines) or lines[number_ - 1] != old:
        raise ConfigError("the file has changed since it was shown: look at it again, then replace the line")
    line = _line(number_, old)
    if given is None:
        if not line.removable:
            raise ConfigError(f"line {number_} is needed: replace what it says instead")
        del lines[number_ - 1]
    elif not line.values:
        raise ConfigError(f"line {number_} has no value to replace")
    else:
        lines[number_ - 1] = _with_values(old, given)
    before, after = _task(text), _task("\n".join(lines))
    if _widths(before) != _widths(after):
        lines = _with_widths(lines, after, before)
    result = "\n".join(lines) + "\n"
    _task(result)
    return result


def _line(place: int, line: str) -> Line:
    if MARK not in line or line.strip() == _HEAD.strip():
        return Line(place, line)
    before, _, why = line.partition(MARK)
    if before.lstrip().startswith("#"):
        return Line(place, line, True, before.strip("# "), removable=True)
    found = _values(line)
    values = tuple(
        Value(key, _as_text(value), isinstance(value, list))
        for key, value in found.items()
        if key not in _FIXED and _is_simple(value)
    )
    begins = before.partition("=")[0].strip()
    name = str(found.get("name", begins)) if values else begins
    told = ", ".join(map(_in_short, values)) or why.removeprefix(":").strip()
    return Line(place, line, True, f"{name}: {told}" if told else name, values)


def _in_short(value: Value) -> str:
    entries = value.text.split("\n")
    if not value.is_list:
        return f"{value.key} {value.text}"
    more = f" and {len(entries) - _FEW} more" if len(entries) > _FEW else ""
    return f"{value.key} {', '.join(entries[:_FEW])}{more}"


def _values(line: str) -> dict[str, Any]:
    """Returns the values of `key = value`, `key = { ... }` or `{ ... },` by their keys; none of others."""
    body = line.partition(MARK)[0].strip()
    try:
        if body.startswith("{"):
            return dict(tomllib.loads(f"row = {body.removesuffix(',')}")["row"])
        table = tomllib.loads(body)
    except tomllib.TOMLDecodeError:  # the first line of a list
        return {}
    only = next(iter(table.values()), None)
    return dict(only) if isinstance(only, dict) else table


def _is_simple(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, str) or _is_number(item) for item in value)
    return isinstance(value, str) or _is_number(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_text(value: object) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _with_values(old: str, given: Mapping[str, str]) -> str:
    """Returns a marked line with other values, without its mark."""
    values = _values(old)
    for key, written in given.items():
        if key in _FIXED or key not in values or not _is_simple(values[key]):
            raise ConfigError(f"{shown(key)} is no value of this line that can be replaced")
        values[key] = _read(key, written, values[key])
    body = old.partition(MARK)[0]
    indent = body[: len(body) - len(body.lstrip())]
    if body.lstrip().startswith("{"):
        return f"{indent}{toml(values)},"
    name = body.partition("=")[0].strip()
    return f"{indent}{name} = {toml(values[name] if set(values) == {name} else values)}"


def _read(key: str, written: str, old: object) -> object:
    """Returns what was written as a value of the kind of `old`."""
    if isinstance(old, list):
        entries = [entry.strip() for entry in written.splitlines() if entry.strip()]
        return [_read(key, entry, old[0]) for entry in entries]
    if isinstance(old, str):
        return written.strip()
    value = number(written)
    if value is None:
        raise ConfigError(f"{key} {shown(written)} is refused; allowed: a number")
    return int(value) if isinstance(old, int) and value == int(value) else value


def _task(text: str) -> Task:
    try:
        return read_task(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the task would be no TOML: {error}; mend the file by hand") from error


def _widths(task: Task) -> tuple[int, int] | None:
    """Returns how many numbers a row has and how many outputs the model, where the task says so."""
    schema = task.data.schema
    return None if schema is None else (schema.shape[0], _outputs(schema))


def _outputs(schema: Schema) -> int:
    return len(schema.target.values) if isinstance(schema.target, ClassTarget) else 1


def _with_widths(lines: list[str], after: Task, before: Task) -> list[str]:
    """Returns the lines with the arguments of a model of node.models that fits the new rows."""
    if after.model.cls in TABLE_MODELS:  # whose arguments follow from the schema
        return lines
    args, (width, outputs) = dict(after.model.args), _widths(after) or (0, 0)
    if after.model.cls == "node.models:Linear" and _LINEAR in args:
        args |= {_LINEAR: width, "outputs": outputs}
    elif after.model.cls == "node.models:MLP" and _LAYERS in args:
        args[_LAYERS] = [width, *args[_LAYERS][1:-1], outputs]
    else:
        raise ConfigError(
            f"this would change a row from {_in_words(before)} to {_in_words(after)}, which the model "
            f"{after.model.cls} does not follow: keep as many values, or write model.args by hand"
        )
    return [f"args = {toml(args)}" if line.startswith("args = ") else line for line in lines]


def _in_words(task: Task) -> str:
    width, outputs = _widths(task) or (0, 0)
    return f"{counted(width, 'number')} and {counted(outputs, 'answer')}"
