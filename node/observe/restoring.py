"""Makes a frozen dataclass from JSON, by its type hints: the inverse of `node.observe.views.document`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from node.errors import shown

T = TypeVar("T")
_PLAIN = (str, int, bool, NoneType)


def restored(kind: type[T], values: object) -> T:
    """Returns the `kind` that `values` describe. Fields that `kind` does not have are left out.

    Raises ValueError, one line that names the field, for a value of another type and for a missing field.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{shown(values)} is not an object")
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind) if field.name in values]  # type: ignore[arg-type]
    try:
        return kind(**{name: _value(hints[name], values[name], name) for name in known})
    except TypeError as error:
        raise ValueError(str(error).partition("() ")[2] or str(error)) from error


def _value(hint: Any, value: object, name: str) -> Any:
    origin = get_origin(hint)
    if hint is object or (hint in _PLAIN and type(value) is hint):
        return value
    if hint is float and type(value) in (int, float):
        return float(value)  # type: ignore[arg-type]
    if origin is UnionType:
        some = next(kind for kind in get_args(hint) if kind is not NoneType)
        return None if value is None else _value(some, value, name)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(get_args(hint)[0], item, name) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {str(key): _value(get_args(hint)[1], item, f"{name}.{key}") for key, item in value.items()}
    if is_dataclass(hint) and isinstance(hint, type):
        return restored(hint, value)
    raise ValueError(f"{name} has the value {shown(value)}")
