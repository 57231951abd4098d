"""Each mutable field that several parts of the protocol share is written in one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import protocol
from protocol.swarm.node_state import NodeState

ROOT = Path(protocol.__file__).parent
CHANGES = frozenset({"add", "append", "clear", "discard", "pop", "remove", "setdefault", "update"})
"""Methods that change sets, dicts and lists."""
OWNERS = {
    "round": {"Node"},
    "base": {"Node"},
    "previous": {"Node"},
    "line": {"Node"},
    "gone": {"Node"},
    "banned": {"Node"},
    "run": {"Runs"},
    "last": {"Node"},
    "following": {"Follower"},
    "votes": {"Voting"},
    "epoch": {"NodeState"},
    "counter": {"NodeState"},
    "charged": {"Charges"},
    "counts": {"Charges"},
    "allow": {"Discovery"},
}
"""The class that writes each field of a node's state."""


def written(where: ast.AST) -> Iterator[ast.Attribute]:
    """Returns the attributes that a piece of code assigns, deletes from, or changes in place."""
    for node in ast.walk(where):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                found = [each for target in targets for each in ast.walk(target)]
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                found = list(ast.walk(target))
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in CHANGES:
                found = [value]
            case _:
                continue
        yield from (each for each in found if isinstance(each, ast.Attribute))


def name_of(owner: ast.expr) -> str:
    """Returns `x` of `x.field` and of `self.x.field`."""
    match owner:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


def classes() -> Iterator[ast.ClassDef]:
    """Returns all classes of the package."""
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


@cache
def writers() -> dict[tuple[str, str], set[str]]:
    """Returns the classes that write each field, by the names of object and field."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in classes():
        own = "state" if node.name == NodeState.__name__ else ""
        for attribute in written(node):
            name = name_of(attribute.value).lstrip("_")
            found[own if name == "self" else name, attribute.attr].add(node.name)
    return found


def test_each_field_of_a_nodes_state_is_written_in_one_class():
    found = writers()
    names = {field.name for field in fields(NodeState)}
    assert {field: found["state", field] for field in names} == OWNERS


@pytest.mark.parametrize("name", ["greeting", "member", "offer", "room", "rounds", "views", "result"])
def test_the_fields_of_what_parts_share_are_written_in_one_class(name: str):
    shared = {field: who for (owner, field), who in writers().items() if owner == name}
    assert all(len(who) == 1 for who in shared.values()), shared
