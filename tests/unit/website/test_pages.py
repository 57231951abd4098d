"""The pages that are made from the code say all of it."""

import doctest
import importlib
import re
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from node.cli.commands import COMMANDS
from node.task.rules import key_name
from node.task.sections import Task
from protocol.actions import Action, Reason
from protocol.relay.frames import FrameKind
from protocol.wire.codec import KINDS
from tests.tables import tables
from website import commands, links, machines, outside, python_page, reference, words
from website.diagrams import drawing, phases_of

NODE = Path(__file__).resolve().parents[3] / "node"
DOTTED = [
    f"{name}.{key_name(entry)}" for name, section in get_type_hints(Task).items() for entry in fields(section)
]


def row(page, first):
    (found,) = [line for line in page.splitlines() if line.startswith(f"| `{first}` |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_every_key_and_reason_has_a_sentence_and_no_sentence_is_stale():
    assert set(words.KEYS) == set(DOTTED)
    assert set(words.SECTIONS) == set(get_type_hints(Task))
    assert not [reason for reason in Reason if not reference.reason_words(reason)]
    assert reference.reason_words(Reason.CAUGHT).startswith("Somebody lied in a masked session")


def test_a_key_is_told_with_type_rule_default_and_whether_peers_must_agree():
    page = reference.configuration()
    assert row(page, "train.rounds")[2:] == ["`int`", "a whole number from 1 to 1000000", "`20`", "yes"]
    assert row(page, "model.class")[4:] == ["not set", "yes"]
    assert row(page, "task.name")[4:] == ["required", "yes"]
    assert row(page, "aggregation.loss_gate")[2:] == ["`float`", "a number above 0", "not set", "no"]
    assert row(page, "data.target")[5] == "no"
    assert all(row(page, dotted)[1] for dotted in DOTTED)


def test_every_command_shows_every_flag():
    page = commands.page()
    runnable = [path for path in NODE.rglob("*.py") if "\nmain.start(__name__)" in path.read_text("utf-8")]
    names = {".".join(path.relative_to(NODE.parent).with_suffix("").parts) for path in runnable}
    assert set(commands.command_modules()) == names
    for module in commands.command_modules():
        parser = commands.help_of(importlib.import_module(module).main)
        if isinstance(parser, str):
            assert parser.strip() in page
            continue
        assert f"## `{parser.prog}`" in page
        assert all(
            f"`{action.option_strings[-1]}" in page for action in parser._actions[1:] if action.option_strings
        )
    assert "`--shard I/N`" in page
    assert "| 130 | interrupted" in page
    for command in COMMANDS:
        assert f"| `murmuration {command.name}` | `python -m {command.package}` | {command.summary} |" in page


def test_a_command_still_prints_its_help_and_one_without_a_parser_tells_its_own_words(capsys):
    main = importlib.import_module("node.key.__main__").main
    commands.help_of(main)
    assert main(["--help"]) == 0
    assert "usage: python -m node.key" in capsys.readouterr().out

    def main(argv):
        print("usage: python -m node.other")
        return 0

    assert commands.help_of(main) == "usage: python -m node.other\n"


def test_every_message_and_step_is_told_and_explained_by_a_machine():
    page = machines.page()
    assert not [kind.__name__ for kind in KINDS.values() if f"| `{kind.__name__}` |" not in page]
    assert not [kind.__name__ for kind in KINDS.values() if not machines.machines_of(kind.__name__)]
    assert [machine.title for machine in machines.machines_of("Dispute")] == ["The masked machine"]
    assert "| new | start | shares | a `Share`, sealed, to each other member |" in page
    assert "| voted | the `Propose` of its leader | in a view | by the leader: `Propose` to all;" in page
    shown = [table for machine in machines.MACHINES for _title, table in machine.tables]
    assert len(shown) == len(tables())
    assert all(any(table is one for one in shown) for table in tables().values())


@pytest.mark.parametrize("machine", machines.MACHINES, ids=lambda machine: machine.anchor)
def test_what_a_machine_names_is_there(machine):
    """Words in capitals in a module's words are messages or frames; names in a table may be actions."""
    capitals = set(re.findall(r"\b[A-Z]{3,}(?=s?\b)", machine.words))
    frames = {kind.name for kind in FrameKind}
    assert capitals <= {kind.upper() for kind in machines.KINDS} | frames | {"SHA", "HMAC", "STEPS"}
    told = [f"{event.value}; {step.does}" for _, t in machine.tables for (_, event), step in t.items()]
    names = set(re.findall(r"\b[A-Z][A-Za-z]+?(?=s?\b)", " ".join(told).replace("T_", "")))
    assert names <= machines.KINDS.keys() | frames | {kind.__name__ for kind in get_args(Action)}


@pytest.mark.parametrize(("name", "table"), tables().items())
def test_a_drawing_has_every_phase_and_event_of_its_table_and_says_them_in_words(name, table):
    svg = drawing(table, name)
    shown = [str(event.value) for _, event in table] + [str(step.to.value) for step in table.values()]
    assert not [text for text in shown if f">{escape(text)}</text>" not in svg]
    assert svg.count('class="event"') == len(table)
    assert svg.count('class="phase"') == len(phases_of(table))
    assert f">{name}</title>" in svg
    assert all(escape(f"{event.value}: {step.to.value}") in svg for (_, event), step in table.items())


def test_python_names_are_told_with_their_methods_and_examples():
    page = python_page.page()
    assert "## examples/local_swarm.py" in page
    assert "Swarm.local(peers: int, task: TaskLike, data: object = None" in page
    assert "Peer.rounds() -> Reading[Record]" in page
    assert (
        "- `shard`: (i, n) takes part i of n, from 0, of the task's own data, or of rows in memory." in page
    )


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://unpkg.com/x"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.googleapis.com/css">', 1),
        ('<link rel="canonical" href="https://here"><a href="https://there">', 0),
        ('<p style="background: url(https://b/c)"><img src="assets/d.png">', 1),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(html, found):
    assert len(outside.loads_of(html)) == found


@pytest.mark.parametrize("name", ["links", "tables", "python_page", "outside"])
def test_the_examples_of_a_module_are_true(name):
    result = doctest.testmod(importlib.import_module(f"website.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_links_lead_to_pages_from_wherever_they_stand():
    pages = {"index.md", "privacy.md", "decisions/README.md", "architecture.md"}
    there = "[a](../README.md#first-run) [b](decisions) [c](../protocol/wire/codec.py)"
    assert links.relinked(there, "privacy.md", pages) == "[a](index.md#first-run) [b](decisions/README.md) c"
    assert links.relinked("[a](../privacy.md)", "decisions/README.md", pages) == "[a](../privacy.md)"
