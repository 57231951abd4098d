"""The page on the protocol's machines and messages, generated from their modules."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, fields
from typing import Any, get_args

from protocol import actions
from protocol.aggregation.additive import machine as additive
from protocol.aggregation.masked import machine as masked
from protocol.aggregation.masked import release, rounds, view_change
from protocol.invitation import inviter, joiner
from protocol.relay import rooms as relay_rooms
from protocol.relay import stream as relay_stream
from protocol.swarm import phases as swarm_phases
from protocol.swarm.meeting import discovery, group_seeker
from protocol.swarm.recovery import catch_up
from protocol.transitions import Table
from protocol.wire import codec
from website.diagrams import drawing
from website.tables import code, table

_INTRODUCTION = """\
State machines without input or output take every decision of a node. Each of them is a table: for each phase
and each event that can occur in it, the next phase, and what the machine sends or does. The tables and
drawings below are read from the code when this page is built, and so is the text of each section, from the
docstrings of the modules that it names. [The protocol](../protocol.md) explains how the machines work
together, and [faults](../faults.md) what was tried against them.

In a drawing each phase is a column and each transition an arrow, in the order of the table beside it. A dot
marks the first phase, a double border a phase that no transition leaves. The text writes the names of
[messages](#messages) in capitals, and those of the frames between a node and a relay; names that are neither
(`Spend`, `Keep`, `Failed`) are actions that the machine asks the node to carry out."""
KINDS: dict[str, type] = {kind.__name__: kind for kind in codec.KINDS.values()}
_ACTIONS = {kind.__name__ for kind in get_args(actions.Action)}


@dataclass(frozen=True)
class Machine:
    """A section of the page: the docstrings of `modules` of protocol/, and transition tables by title."""

    title: str
    modules: tuple[str, ...]
    tables: tuple[tuple[str, Table[Any, Any]], ...]

    @property
    def anchor(self) -> str:
        """The anchor of its section."""
        return re.sub(r"\W+", "-", self.title.lower())

    @property
    def words(self) -> str:
        """The docstrings of its modules as Markdown."""
        return "\n\n".join(_docstring_of(name) for name in self.modules)

    @property
    def text(self) -> str:
        """Its section as Markdown."""
        parts = [f"## {self.title}", self.words]
        for title, steps in self.tables:
            parts += [f"### {title}", drawing(steps, title), steps_table(steps)]
        return "\n\n".join(parts)


_MASKED = ("machine", "key_setup", "rounds", "reduction", "release", "view_change")

MACHINES = (
    Machine(
        "A node in a swarm",
        ("swarm.node", "aggregation.equivocation", "swarm.last_rounds"),
        (("Steps of a node's rounds", swarm_phases.STEPS),),
    ),
    Machine(
        "Getting to know each other",
        ("swarm.meeting.discovery", "swarm.meeting.charges"),
        (("Steps of joining", discovery.STEPS),),
    ),
    Machine(
        "Finding a group",
        (
            *("swarm.meeting.coordinator_turns", "swarm.meeting.group_seeker", "swarm.meeting.matchmaker"),
            *("swarm.meeting.room", "swarm.votes.rivals"),
        ),
        (("Steps of an offer", group_seeker.STEPS),),
    ),
    Machine(
        "The additive machine",
        ("aggregation.additive.machine",),
        (("Steps of an additive session", additive.STEPS),),
    ),
    Machine(
        "The masked machine",
        tuple(f"aggregation.masked.{name}" for name in _MASKED),
        (
            ("Steps of a masked session", masked.STEPS),
            ("Steps of its rounds", rounds.STEPS),
            ("What a member says of the totals", release.STEPS),
            ("Steps from view to view", view_change.STEPS),
        ),
    ),
    Machine(
        "Catching up",
        ("swarm.recovery.catch_up", "swarm.recovery.fetch"),
        (("Steps of a fetch", catch_up.STEPS),),
    ),
    Machine(
        "Streams by a relay",
        ("relay.streams", "relay.stream", "relay.ways"),
        (("Steps of one end of a stream", relay_stream.STEPS),),
    ),
    Machine(
        "An invitation",
        ("invitation.messages", "invitation.inviter", "invitation.joiner"),
        (("Steps of an inviter", inviter.STEPS), ("Steps of a joiner", joiner.STEPS)),
    ),
    Machine(
        "A relay",
        ("relay.admission", "relay.frames", "relay.switch", "relay.rooms", "relay.room_messages"),
        (("Steps of a visit to a room", relay_rooms.STEPS),),
    ),
)


def page() -> str:
    """The whole page as Markdown: machines, then messages."""
    sections = [machine.text for machine in MACHINES]
    return "\n\n".join(["# States and messages", _INTRODUCTION, *sections, "## Messages", messages()])


def _docstring_of(name: str) -> str:
    """The docstring of a module, after its name."""
    module = importlib.import_module(f"protocol.{name}")
    headline, _, rest = (inspect.getdoc(module) or "").partition("\n")
    blocks = [block.strip("\n") for block in rest.split("\n\n") if block.strip()]
    words = "\n\n".join(block.replace("\n- ", "\n\n- ", 1) for block in blocks)
    return f"{code(module.__name__)}: {headline[:1].lower()}{headline[1:]}\n\n{words}".rstrip()


def steps_table(steps: Table[Any, Any]) -> str:
    """A transition table as Markdown, in its order."""
    rows = [
        [str(before.value), _named(str(event.value)), str(step.to.value), _named(step.does)]
        for (before, event), step in steps.items()
    ]
    return table(["phase", "event", "next phase", "what is sent or done"], rows)


def _named(words: str) -> str:
    """A text in which names of messages and actions are marked as code."""
    names = "|".join(sorted(KINDS.keys() | _ACTIONS, key=len, reverse=True))
    return re.sub(rf"\b({names})(?=s?\b)", r"`\1`", words)


def machines_of(kind: str) -> list[Machine]:
    """The machines whose section contains a message's name, as it is or in capitals."""
    name = re.compile(rf"\b({kind}|{kind.upper()})s?\b")
    return [machine for machine in MACHINES if name.search(machine.text)]


def _first_line_of(kind: type) -> str:
    """The first line of a message's docstring, without the number of its step in the specification."""
    return re.sub(r"^\d\.\d: ", "", (inspect.getdoc(kind) or "").split("\n")[0])


def messages() -> str:
    """A table of every message, in the order of the numbers on the wire."""
    rows = [
        [
            str(number),
            code(name),
            _first_line_of(kind),
            ", ".join(code(field.name) for field in fields(kind)),
            ", ".join(f"[{machine.title}](#{machine.anchor})" for machine in machines_of(name)),
        ]
        for number, (name, kind) in zip(codec.KINDS, KINDS.items(), strict=True)
    ]
    return table(["number", "message", "says", "fields", "used in"], rows)
