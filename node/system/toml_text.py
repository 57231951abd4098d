"""Values as the text of TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def toml(value: object) -> str:
    """Returns `value` (text, number, boolean, list, table) in TOML."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case Mapping():
            return "{ " + ", ".join(f"{name} = {toml(item)}" for name, item in value.items()) + " }"
        case Sequence():
            return "[" + ", ".join(map(toml, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no place in TOML")
