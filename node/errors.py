"""What a user is told when something can not go on: one line and an exit status."""

from __future__ import annotations

_SHOWN_CHARACTERS = 60


def one_line(text: str) -> str:
    """`text` on one line: white space folded, other unprintable characters as `?`."""
    folded = " ".join(text.split())
    return "".join(character if character.isprintable() else "?" for character in folded)


def shown(value: object) -> str:
    """`value` as a message quotes it: one line, bounded, booleans as TOML writes them."""
    text = str(value).lower() if isinstance(value, bool) else one_line(repr(value))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def reason(error: Exception) -> str:
    """Why the system or a library refused, without the path or the class it repeats."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    line = one_line(str(text))
    return line if len(line) <= 200 else line[:197] + "..."


class UserError(Exception):
    """A fault that the user can mend; `str(error)` is one line, `status` the exit status.

    The line says what, the value, what is allowed and what to do. Status 1 is a failure
    at run time, 2 bad arguments or configuration.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(one_line(message))
        self.status = status


class ConfigError(UserError):
    """Bad arguments, task file or data: status 2, raised before anything is written."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=2)
