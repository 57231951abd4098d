"""The page on the Python interface, from its docstrings, with the scripts in examples/."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import node
from website.tables import code

_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_INTRODUCTION = """\
Run a node, or a whole swarm, from a program or a notebook. The package `node` exports the names below. In a
notebook, `await` and `async for` work at the top level of a cell, and so does `run()`. All of this was tried
in a Jupyter kernel (ipykernel 7.4), including interrupting a cell and running another swarm afterwards."""
_SHOWN = ("Peer", "Swarm", "Results", "SwarmClassifier", "SwarmRegressor", "Learner", "LearnerSetting")


def page() -> str:
    """The page as Markdown: examples first, then every public name with its methods."""
    scripts = (
        f"## examples/{path.name}\n\n```python\n{path.read_text('utf-8').rstrip()}\n```"
        for path in sorted(_EXAMPLES.glob("*.py"))
    )
    parts = ["# Python", _INTRODUCTION, *scripts]
    for name in _SHOWN:
        parts += [_described(getattr(node, name))]
    others = ", ".join(code(name) for name in node.__all__ if name not in _SHOWN)
    fields = "[History and summary](files.md) has the fields of `Record` and `Summary`."
    return "\n\n".join([*parts, f"## The other names\n\n{others}. {fields}"])


def _described(kind: type) -> str:
    parts = [f"## {kind.__name__}", markdown_of(inspect.getdoc(kind) or "")]
    if not hasattr(kind, "__dataclass_fields__"):
        parts.append(f"```python\n{kind.__name__}{_signature(kind)}\n```")
    for name, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, classmethod) else member
        if name.startswith("_") or not (inspect.isfunction(plain) or isinstance(plain, property)):
            continue
        head = f"{kind.__name__}.{name}" + (_signature(plain) if inspect.isfunction(plain) else "")
        parts.append(f"```python\n{head}\n```\n\n{markdown_of(inspect.getdoc(plain) or '')}")
    return "\n\n".join(parts)


def _signature(thing: object) -> str:
    signature = inspect.signature(thing)  # type: ignore[arg-type]
    kept = [one for name, one in signature.parameters.items() if name not in {"self", "cls"}]
    return str(signature.replace(parameters=kept)).replace("'", "")


def markdown_of(docstring: str) -> str:
    r"""Convert a docstring of this project to Markdown: arguments as lists, examples as code.

    >>> markdown_of("Adds.\n\nArgs:\n    a: one,\n        or two.\n\n>>> 1\n1").splitlines()
    ['Adds.', '', '- `a`: one, or two.', '', '```pycon', '>>> 1', '1', '```']
    """
    blocks = docstring.split("\n\n")
    return "\n\n".join(_block(block) for block in blocks)


def _block(block: str) -> str:
    if block.startswith(">>>"):
        return f"```pycon\n{block}\n```"
    head, _, rest = block.partition("\n")
    if head in {"Args:", "Raises:"}:
        joined = re.sub(r"\n\s{8,}", " ", "\n" + rest)
        items = re.findall(r"\n\s+(\w+): (.+)", joined)
        listed = "\n".join(f"- {code(name)}: {text}" for name, text in items)
        return listed if head == "Args:" else f"Raises:\n\n{listed}"
    return block
