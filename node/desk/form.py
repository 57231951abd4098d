"""What the page sends: a JSON object of texts, lists and switches, each checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from node.system.errors import ConfigError

MOST_BYTES = 1 << 18
_MOST_TEXTS = 1000
_LONGEST = 1 << 16


class Garbage(ConfigError):
    """A body that no page sends."""


@dataclass(frozen=True)
class Form:
    """The fields of a form by name."""

    fields: Mapping[str, object]

    def text(self, name: str, otherwise: str | None = None) -> str:
        """Returns a text without blanks around it; `otherwise` if it is not there. Raises Garbage."""
        value = self.fields.get(name, otherwise)
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise Garbage(f"{name} is missing; allowed: a text")
        return value.strip()

    def exact(self, name: str) -> str:
        """Returns a text as it is. Raises Garbage."""
        value = self.fields.get(name)
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise Garbage(f"{name} is missing; allowed: a text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of texts; none if it is not there. Raises Garbage."""
        value = self.fields.get(name, [])
        if not isinstance(value, list) or len(value) > _MOST_TEXTS:
            raise Garbage(f"{name} is refused; allowed: a list of at most {_MOST_TEXTS} texts")
        return tuple(Form({name: each}).text(name) for each in value)

    def table(self, name: str) -> dict[str, str] | None:
        """Returns texts by name; None for null. Raises Garbage."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or len(value) > _MOST_TEXTS:
            raise Garbage(f"{name} is refused; allowed: texts by name")
        return {key: Form(value).exact(key) for key in value}

    def whole(self, name: str) -> int:
        """Returns a whole number. Raises Garbage."""
        value = self.fields.get(name)
        if type(value) is not int:
            raise Garbage(f"{name} is missing; allowed: a whole number")
        return value

    def flag(self, name: str) -> bool:
        """Returns whether a switch is on. Raises Garbage."""
        value = self.fields.get(name, False)
        if type(value) is not bool:
            raise Garbage(f"{name} is refused; allowed: true or false")
        return value


def read_form(body: bytes) -> Form:
    """Returns the form in a body of JSON. Raises Garbage."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbage("the body is refused; allowed: a JSON object") from None
    if not isinstance(value, dict):
        raise Garbage("the body is refused; allowed: a JSON object")
    return Form(value)
