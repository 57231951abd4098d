"""Overrides of single values of a task from outside its file: `section.key=value`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from node.system.errors import ConfigError, shown


@dataclass(frozen=True)
class Override:
    """A value for the key at `path` (at least a section and a key); `where`: its place for errors."""

    path: tuple[str, ...]
    value: object
    where: str


def parse_override(written: str, where: str) -> Override:
    """Parses `section.key=value`, the value in TOML syntax or a bare word. Raises ConfigError."""
    dotted, equals, value = written.partition("=")
    path = tuple(part.strip() for part in dotted.split("."))
    if not equals or len(path) < 2 or not all(path):
        raise ConfigError(
            f"{where} {shown(written)} is refused; allowed: section.key=value, such as train.rounds=5"
        )
    return Override(path, _toml_value(value.strip()), where)


def apply_override(table: dict[str, Any], override: Override) -> None:
    """Sets the value in `table`, the parsed task; raises ConfigError if a part of the path is a value."""
    place = table
    for part in override.path[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            name = ".".join(override.path)
            raise ConfigError(
                f"{override.where} {shown(name)} is refused: {part} is a value, not a table of keys"
            )
    place[override.path[-1]] = override.value


def leaves(
    table: Mapping[str, object], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yields the values of nested tables with their paths."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _toml_value(written: str) -> object:
    """Returns `written` as a TOML value; the text itself if it is not valid TOML."""
    try:
        table = tomllib.loads(f"value = {written}")
    except (ValueError, RecursionError):
        return written
    return table["value"] if len(table) == 1 else written  # a line break may add keys
