"""The pages that are made from the code say all of it."""

from __future__ import annotations

import doctest
import importlib
from dataclasses import fields
from typing import get_type_hints

import pytest

from node.artifacts import Record, Summary
from node.config import Task
from node.config_values import key_name
from protocol.actions import Reason
from protocol.additive import STEPS
from protocol.codec import _TYPES
from website import commands, links, machines, outside, python_page, reference, words
from website.diagrams import drawing

DOTTED = [
    f"{name}.{key_name(entry)}" for name, section in get_type_hints(Task).items() for entry in fields(section)
]


def row(page, first):
    (found,) = [line for line in page.splitlines() if line.startswith(f"| `{first}` |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_every_key_has_a_sentence_and_no_sentence_is_stale():
    assert set(words.KEYS) == set(DOTTED)
    assert set(words.SECTIONS) == set(get_type_hints(Task))


@pytest.mark.parametrize(("kind", "said"), [(Record, words.RECORD), (Summary, words.SUMMARY)])
def test_every_field_has_a_sentence_and_no_sentence_is_stale(kind, said):
    assert set(said) == {entry.name for entry in fields(kind)}


def test_every_reason_is_explained():
    assert not [reason for reason in Reason if not reference.reason_words(reason)]
    assert reference.reason_words(Reason.CAUGHT).startswith("Somebody lied in a masked session")


def test_a_key_is_told_with_type_rule_default_and_whether_peers_must_agree():
    page = reference.configuration()

    assert row(page, "train.rounds")[2:] == ["`int`", "a whole number from 1 to 1000000", "`20`", "yes"]
    assert row(page, "model.class")[4:] == ["required", "yes"]
    assert row(page, "aggregation.loss_gate")[2:] == ["`float`", "a number above 0", "not set", "no"]
    assert row(page, "data.target")[5] == "no"
    assert all(row(page, dotted)[1] for dotted in DOTTED)


def test_every_command_shows_every_flag():
    page = commands.page()

    assert {"node.__main__", "node.key", "node.tracker"} <= set(commands.command_modules())
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


def test_a_command_still_prints_its_help_afterwards(capsys):
    main = importlib.import_module("node.key").main
    commands.help_of(main)
    with pytest.raises(SystemExit):
        main(["--help"])

    assert "usage: python -m node.key" in capsys.readouterr().out


def test_a_command_without_a_parser_is_told_in_its_own_words():
    def main(argv):
        print("usage: python -m node.other")
        return 0

    assert commands.help_of(main) == "usage: python -m node.other\n"


def test_every_machine_and_message_of_the_protocol_is_there():
    page = machines.page()

    assert {"protocol.session", "protocol.additive", "protocol.masked", "protocol.seeking"} <= {
        module.__name__ for module in machines.machines()
    }
    assert "start --n JOINs--> JOINED --n votes--> masks" in page
    assert "start --all n shares--> SUMS --all n sums--> Completed\n  |                       |\n" in page
    assert all(f"| `{kind.__name__}` |" in page for kind in _TYPES)


def test_a_drawing_has_every_state_and_event_of_its_table():
    svg = drawing(STEPS, "steps")

    shown = [event.value for _, event in STEPS] + [phase.name for phase in STEPS.values()]
    assert not [text for text in shown if f">{text}</text>" not in svg]
    assert svg.count("<rect") == 3
    assert 'aria-label="steps"' in svg


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
    there = "[a](../README.md#first-run) [b](decisions) [c](../protocol/codec.py)"

    assert links.relinked(there, "privacy.md", pages) == "[a](index.md#first-run) [b](decisions/README.md) c"
    assert links.relinked("[a](../privacy.md)", "decisions/README.md", pages) == "[a](../privacy.md)"
