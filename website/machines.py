"""The protocol's machines and messages, from the modules that are them."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from pathlib import Path
from textwrap import dedent
from types import ModuleType

from protocol import additive, codec
from website.diagrams import drawing
from website.tables import code, table

_FOLDER = Path(__file__).resolve().parents[1] / "protocol"
_FIRST = ("session", "additive", "masked")
_INTRODUCTION = """\
What a node decides is decided by machines without input or output; here they are as their modules draw them,
read from the code when this page is built. [Architecture](../architecture.md#a-round) tells how they play
together, [faults](../faults.md) what was tried against them."""


def page() -> str:
    """Machines, then messages."""
    parts = ["# The protocol", _INTRODUCTION]
    for module in machines():
        parts += [f"## {_headline(module)}", f"{code(module.__name__)}", _told(module)]
    return "\n\n".join([*parts, "## Messages", messages()])


def machines() -> list[ModuleType]:
    """The modules whose docstring draws a machine."""
    names = sorted((path.stem for path in _FOLDER.glob("*.py")), key=lambda name: (name not in _FIRST, name))
    modules = [importlib.import_module(f"protocol.{name}") for name in names if name != "__init__"]
    drawn = [module for module in modules if "-->" in (module.__doc__ or "")]
    return sorted(
        drawn, key=lambda module: _FIRST.index(_stem(module)) if _stem(module) in _FIRST else len(_FIRST)
    )


def _stem(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _headline(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").split("\n")[0].rstrip(".:")


def _told(module: ModuleType) -> str:
    """The docstring, its drawing as it stands; where the module has a table of steps, that is drawn, too."""
    text = (inspect.getdoc(module) or "").partition("\n")[2].strip("\n")
    blocks = [_block(block) for block in text.split("\n\n") if block.strip()]
    if module is additive:
        title = "The steps of the additive machine: shares, sums, done"
        blocks.insert(0, drawing(additive.STEPS, title))
    return "\n\n".join(blocks)


def _block(block: str) -> str:
    is_drawing = "-->" in block or block.startswith(" ")
    if is_drawing:
        return f"```text\n{dedent(block)}\n```"
    return block.replace("\n- ", "\n\n- ", 1)


def messages() -> str:
    """Every message, in the order of its number on the wire."""
    rows = [
        [
            str(number),
            code(kind.__name__),
            (inspect.getdoc(kind) or "").split("\n")[0],
            ", ".join(code(field.name) for field in fields(kind)),
        ]
        for number, kind in enumerate(codec._TYPES)
    ]
    return table(["number", "message", "says", "fields"], rows)
