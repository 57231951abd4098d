"""Cases of a test as a table of text, and the text of a task file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent

import pytest

from node.system.toml_text import toml


def cases(table: str) -> pytest.MarkDecorator:
    """Parametrizes a test: `=>` between the cells; the first line has the names, an indented one goes on."""
    names, *rows = re.sub(r"\n +", " ", dedent(table).strip()).splitlines()
    return pytest.mark.parametrize(_cells(names), [_cells(row) for row in rows])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("=>")]


def toml_file(sections: Mapping[str, Mapping[str, object]]) -> str:
    """Returns the text of a task file with these sections."""
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in section.items())
        for name, section in sections.items()
    )
