"""Dataclasses as the plain values of JSON, and back, as the types of their fields say.

plain(value)              to JSON: history.jsonl, summary.json, view.json, the page, stored endings
restored(kind, values)    back; a value of another type, or a missing one, is refused
salvaged(kind, values)    back; such a value is left to the field's default
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from node.system.errors import shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
_Read = Callable[[Any, str], Any]
"""Returns a value of JSON as a field holds it; raises ValueError with the field's name."""


def plain(value: Any, digits: int | None = None) -> Any:
    """Returns values for JSON: NaN and infinity become None, other floats are rounded to `digits`, if any."""
    match value:
        case str() | int() | None:  # most of a long history, so checked before the slower cases
            return value
        case float():
            finite = value if math.isfinite(value) else None
            return finite if finite is None or digits is None else round(finite, digits)
        case list() | tuple():
            return [plain(item, digits) for item in value]
        case Mapping():
            return {str(name): plain(item, digits) for name, item in value.items()}
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name), digits) for field in fields(value)}
        case _:
            return value


def restored(kind: type[T], values: object) -> T:
    """Returns the `kind` that `values` describe. Fields that `kind` does not have are left out.

    Raises ValueError, one line that names the field, for a value of another type and for a missing field.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{shown(values)} is not an object")
    found = {name: read(values[name], name) for name, read in _readers(kind).items() if name in values}
    try:
        return kind(**found)
    except TypeError as error:
        raise ValueError(str(error).partition("() ")[2] or str(error)) from error


def salvaged(kind: type[T], values: Mapping[str, object]) -> T:
    """Returns the `kind` that `values` describe, with the defaults of fields that are missing or damaged."""
    found = {}
    for name, read in _readers(kind).items():
        if name in values:
            try:
                found[name] = read(values[name], name)
            except ValueError:
                continue
    return kind(**found)


@cache
def _readers(kind: type[DataclassInstance]) -> dict[str, _Read]:
    hints = get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in fields(kind)}


@cache
def _reader(hint: Any) -> _Read:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is object:
        return lambda value, name: value
    if origin is UnionType:
        some = _reader(next(kind for kind in parts if kind is not NoneType))
        return lambda value, name: None if value is None else some(value, name)
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value, name: restored(hint, value)
    if hint is float:
        return _typed((int, float), lambda value, name: float(value))
    if origin is tuple:
        item = _reader(parts[0])
        return _typed((list,), lambda value, name: tuple([item(one, name) for one in value]))
    if origin is Mapping:
        item = _reader(parts[1])
        return _typed(
            (dict,), lambda value, name: {str(key): item(one, f"{name}.{key}") for key, one in value.items()}
        )
    return _typed((hint,), lambda value, name: value)


def _typed(kinds: tuple[type, ...], read: _Read) -> _Read:
    def checked(value: Any, name: str) -> Any:
        if type(value) not in kinds:
            raise ValueError(f"{name} has the value {shown(value)}")
        return read(value, name)

    return checked
