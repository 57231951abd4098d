"""What a node reports while its swarm waits for somebody, and about models made without somebody."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from node.app import _gone_words
from node.observe.health import missing_of
from node.observe.history_reader import Rounds
from node.observe.journal import Journal
from node.observe.view_sources import NodeViewSource
from node.runtime.notices import notice_text
from node.runtime.waiting import waiting_text
from node.storage.folder_lock import HISTORY
from protocol.actions import Healed, Note, Notice
from protocol.quorum.lineage import FIRST, Line
from protocol.swarm.votes.obstacle import Obstacle, Stage
from protocol.wire.messages import Link
from tests import run_folders
from tests.parts import endpoint, group, members
from tests.unit.node.alone import ended, words
from tests.unit.node.observe.test_health import served

MADE = "who made the last model"
FOUND = Obstacle(1, ("10.0.0.3:1", "a1b2c3d4"), MADE, Stage.WEAK, "until they are back", can_be_gone=True)
TEXT = f"waiting for 1 of: 10.0.0.3:1, a1b2c3d4, {MADE}; until they are back"
GONE = ("10.0.0.3:1", "a1b2c3d4")


def test_the_owner_is_told_what_can_be_done_where_something_can():
    assert waiting_text(None, Path("mine")) == ""
    assert waiting_text(replace(FOUND, can_be_gone=False), Path("mine")) == TEXT
    assert waiting_text(FOUND, Path("my runs")) == (
        f"{TEXT}; if they are gone for good: python -m node.rejoin --out 'my runs'"
    )


@pytest.mark.parametrize("kind", [Note.WEAK, Note.QUORUM, Note.WAITING])
def test_what_the_swarm_does_is_told_in_its_own_words(kind):
    assert notice_text(Notice(kind, "", "in words"), "{}") == "in words"


async def test_a_waiting_node_says_so_to_all_who_look(alone):
    node = alone("none")
    inspector = node.peer.inspector
    owner = NodeViewSource(inspector, Journal(lambda: 0.0), Rounds(node.folder / HISTORY))
    assert (await inspector.take()).waiting == (await owner.view()).waiting == ""
    inspector.node._watch.obstacle = FOUND
    hint = f"{TEXT}; if they are gone for good: python -m node.rejoin --out {node.folder}"
    assert (await inspector.take()).waiting == hint
    view = await owner.view()
    assert (view.waiting, view.electors_missing) == (hint, 1)
    owner.ended = True
    view = await owner.view()
    assert (view.waiting, view.electors_missing) == ("", 0)
    await node.peer._perform(Notice(Note.WAITING, "", TEXT))
    assert json.loads(node.said.getvalue()) == {"event": "notice", "text": hint}


async def test_a_supervisor_is_told_that_a_node_waits_and_no_name(alone):
    inspector = alone("none").peer.inspector
    stopping = SimpleNamespace(asked=False)
    async with served(missing_of(inspector, stopping), lambda: inspector.troubles) as ask:
        assert await ask("/healthz") == (200, {"status": "ok"})
        inspector.node._watch.obstacle = FOUND
        waiting = f"waiting for 1 of 2 peers, {MADE}; until they are back"
        assert await ask("/healthz") == (200, {"status": "ok", "waiting": waiting})


def told(node, event):
    lines = map(json.loads, node.said.getvalue().splitlines())
    return [line for line in lines if line["event"] == event]


async def test_a_model_that_was_made_without_somebody_is_told_loudly_and_stands_in_the_history(alone):
    node = alone("none")
    node.peer._training = node.peer._train(1)
    made = ended(node, words(node, 0.5))
    await node.peer._perform(replace(made, without=GONE, line=replace(FIRST, anchor=1)))
    await node.peer._history.catch_up()
    (warning,) = told(node, "warning")
    assert "generation 1 was agreed WITHOUT 10.0.0.3:1, a1b2c3d4, who count as gone" in warning["text"]
    (line,) = run_folders.history(node.folder)
    assert line["without"] == list(GONE) == told(node, "round")[0]["without"]


async def test_one_that_was_fetched_is_told_of_too(alone):
    node = alone("none")
    made = ended(node, words(node, 0.5))
    fetched = (made.group, made.sid, made.result, made.contributors, made.certificate, b"k" * 32, None, GONE)
    await node.peer._perform(Healed(*fetched))
    assert len(told(node, "warning")) == 1


async def test_at_its_start_a_node_says_who_counts_as_gone(alone):
    keys, node = members(4), alone("none")
    assert _gone_words(node.state) == {}
    line = Line(1, None, (Link(group(keys[:3]), (), ()),))
    node.state.line, node.state.gone = line, frozenset(key.public for key in keys[2:])
    (text,) = _gone_words(node.state).values()
    assert f"{keys[2].public.hex()[:16]} at {endpoint(keys[2])}" in text
    assert keys[3].public.hex()[:16] in text
    assert np.isfinite(node.state.base_vector).all()
