"""Names that an owner gives to keys: the file, and where they stand in place of hex digits."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from node.cli.logs import Log, LogOptions, logging_to
from node.observe.history_reader import Rounds
from node.observe.journal import Journal
from node.observe.lines import round_text
from node.observe.log_observer import LogObserver
from node.observe.view_sources import NodeViewSource
from node.runtime.notices import notice_text
from node.runtime.waiting import names_of, waiting_text
from node.storage.nicknames import LONGEST_NAME, MOST_NAMES, NO_NICKNAMES, Nicknames, read_nicknames
from protocol.actions import Elector, Note, Notice
from protocol.quorum.electorate import of_names
from protocol.wire.messages import Hello, Parting
from tests.own_data import told
from tests.parts import announce, base, endpoint, members
from tests.unit.node.observe.test_lines import RECORD
from tests.unit.protocol.swarm.votes.test_obstacle import Place

KEYS = members(3)
ONE, TWO, THREE = (key.public for key in KEYS)
NAMED = Nicknames({TWO: "ward b"})


def written(folder: Path, text: str) -> Path:
    path = folder / "names.txt"
    path.write_text(text, "utf-8")
    return path


def test_a_file_of_names(tmp_path):
    one, two, three = (key.hex() for key in (ONE, TWO, THREE))
    text = f'# the wards\nward a = {one}\n\n  Zürich="{two.upper()}" # by phone\na=b = {three}\n'
    assert read_nicknames(written(tmp_path, text)).names == {ONE: "ward a", TWO: "Zürich", THREE: "a=b"}
    assert read_nicknames(written(tmp_path, "# nobody yet\n")).names == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ward a", "line 1: 'ward a' is refused; allowed: NAME = KEY, with a name of 1 to 40"),
        ("ward a = abcd", "line 1: 'ward a = abcd' is refused"),
        (f" = {'ab' * 32}", "is refused; allowed: NAME = KEY"),
        (f"{'x' * (LONGEST_NAME + 1)} = {'ab' * 32}", "is refused; allowed: NAME = KEY"),
        (f"a\x1b[31m = {'ab' * 32}", "is refused; allowed: NAME = KEY"),
        (f"a = {'ab' * 32}\nb = {'AB' * 32}", "line 2: 'b = "),
        (f"a = {'ab' * 32}\na = {'ac' * 32}", "names a key or uses a name for the second time"),
        ("x" * ((1 << 20) + 1), "more than 1 MiB"),
    ],
)
def test_a_file_that_names_nobody_properly(tmp_path, text, line):
    message = told(read_nicknames, written(tmp_path, text))
    assert message.startswith("--names ")
    assert line in message


def test_a_file_of_too_many_names_or_none(tmp_path):
    many = "\n".join(f"n{number} = {number:064x}" for number in range(MOST_NAMES + 1))
    assert "has 1025 names; allowed: at most 1024" in told(read_nicknames, written(tmp_path, many))
    assert "cannot be read: No such file" in told(read_nicknames, tmp_path / "nobody")
    (tmp_path / "latin").write_bytes(b"Z\xfcrich = 1")
    assert "cannot be read" in told(read_nicknames, tmp_path / "latin")


def test_a_key_without_a_name_is_called_by_its_first_digits():
    assert (NAMED.called(TWO.hex()), NAMED.called(TWO.hex()[:16])) == ("ward b", "ward b")
    assert NAMED.called(ONE.hex()) == ONE.hex()[:8]
    assert NO_NICKNAMES.called(TWO.hex()) == TWO.hex()[:8]
    alike = Nicknames({bytes.fromhex("ab" * 32): "ward b", bytes.fromhex("ac" * 32): "ward c"})
    assert (alike.of("ab"), alike.of("a"), alike.of("77")) == ("ward b", "", ""), "shared digits name nobody"


@pytest.mark.parametrize(
    ("notice", "text"),
    [
        (Notice(Note.JOINED, "h:1", TWO.hex()[:8]), "h:1 is here (ward b)"),
        (Notice(Note.JOINED, "h:1", ONE.hex()[:8]), f"h:1 is here (key {ONE.hex()[:8]})"),
        (Notice(Note.LEFT, "h:1", TWO.hex()[:8]), "h:1 has left (ward b)"),
        (Notice(Note.LEFT, "h:1", TWO.hex()[:8], Parting.FAILED), "h:1 has left: it cannot go on (ward b)"),
    ],
)
def test_who_comes_and_goes_has_a_name(notice, text):
    assert notice_text(notice, "", NAMED.of(notice.text)) == text


def test_who_was_missing_has_a_name():
    one, two = ONE.hex()[:16], TWO.hex()[:16]
    changed = {
        "outcome": "fallback",
        "reason": "sums-timeout",
        "missing": (two, one),
        "names": {two: "ward b"},
    }
    text = round_text(replace(RECORD, **changed), 20)
    assert f"own update kept (sums-timeout, missing ward b, {one[:8]}); " in text


def test_electors_that_are_missing_have_names():
    named = of_names(endpoint(key) for key in KEYS)
    pinned = Place(named, held=base(), pins={endpoint(KEYS[1]): TWO}).look()
    assert f"ward b ({endpoint(KEYS[1])})" in waiting_text(pinned, NAMED, Path())
    met = Place(named, held=base()).hear(KEYS[1])
    met.members.suspect(TWO)
    assert f"ward b ({endpoint(KEYS[1])})" in waiting_text(met.look(), NAMED, Path())
    made = Place(KEYS).look()
    assert " ward b, " in waiting_text(made, NAMED, Path())
    gone = (Elector("h:2", TWO), Elector("h:3", THREE), Elector("h:4"))
    assert names_of(gone, NAMED) == ("ward b", "h:3", "h:4")


async def test_the_page_and_the_status_line_show_names(alone):
    node = alone("none")
    object.__setattr__(node.peer.inspector.plan, "nicknames", NAMED)
    session = node.peer._node
    there = announce(KEYS[1], task="digits", parameters=node.parameters)
    await node.peer._shell.feed(lambda now: session.receive(Hello(there, bytes(16), False, ""), TWO, now))
    view = await NodeViewSource(node.peer.inspector, Journal(lambda: 0.0), Rounds(node.folder / "h")).view()
    (peer,) = (each for each in view.peers if each.key is not None)
    assert (peer.name, peer.key) == ("ward b", TWO.hex()[:16])
    called = node.peer.inspector.called([endpoint(KEYS[1]), "h:1"])
    assert called == (f"ward b ({endpoint(KEYS[1])})", "h:1")


async def test_who_comes_has_its_name_in_words_and_in_the_log(alone, monkeypatch):
    node, heard = alone("none"), []
    node.peer._notices._nicknames = NAMED
    monkeypatch.setattr(node.peer, "_observer", SimpleNamespace(handle=heard.append))
    for key in (TWO, ONE):
        await node.peer._perform(Notice(Note.JOINED, "h:1", key.hex()[:8]))
    assert [event.text for event in heard] == ["h:1 is here (ward b)", f"h:1 is here (key {ONE.hex()[:8]})"]
    out = io.StringIO()
    with logging_to(out, LogOptions("json", "info")):
        for event in heard:
            LogObserver(Log("node")).handle(event)
    assert [json.loads(line).get("name") for line in out.getvalue().splitlines()] == ["ward b", None]
