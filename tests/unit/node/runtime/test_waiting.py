"""What a node reports while its swarm waits for somebody, and about models made without somebody."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from node.app.run import _gone_words
from node.observe.health import missing_of
from node.observe.history_reader import Rounds
from node.observe.journal import Journal
from node.observe.view_sources import NodeViewSource
from node.runtime.waiting import nameless, waiting_text
from node.storage.folder_lock import HISTORY
from node.storage.nicknames import NO_NICKNAMES
from protocol.actions import Elector, Healed, Waiting
from protocol.quorum.lineage import FIRST, Line
from protocol.swarm.meeting.patience import PatienceLeft
from protocol.swarm.votes.obstacle import Obstacle, Stage, Whose
from protocol.wire.messages import Link
from tests import run_folders
from tests.parts import endpoint, group, members
from tests.unit.node.alone import ended, words
from tests.unit.node.observe.test_health import served

A, B, C = Elector("10.0.0.3:1"), Elector("a1b2c3d4", b"k" * 32), Elector("10.0.0.5:1", is_bound=True)
MADE = "who made the last model"
FOUND = Obstacle(Stage.WEAK, 1, (A, B), Whose.LAST)
MEANWHILE = "until they are back, models are agreed without them"
TEXT = f"waiting for 1 of: 10.0.0.3:1, a1b2c3d4, {MADE}; {MEANWHILE}"
HINT = "; if they are gone for good: python -m node.rejoin --out 'my runs'"
GONE = ("10.0.0.3:1", "a1b2c3d4")
PATIENT = Obstacle(Stage.PATIENT, 2, (A, C), Whose.STRONG, patience=PatienceLeft(5))


NAMED = "who were named for the first model"
QUORUM = "who made the last model with a quorum"
OTHERS = "of another version of the protocol"
HAND_OVER = "; if they have ended their run, one of them starts again, and gives this node the last model"
TWO_HERE = "a model takes at least 3 peers, and 2 are here"
NEVER = "nothing goes on without them (aggregation.weak = false)"
AS_LONG = "goes on without them as soon as the others here have waited as long"
UPGRADE = "upgrade all nodes of the swarm together; no round is spent meanwhile"
ALL_SAY_SO = "a model is made without them once all nodes of a group count them so"
ME = Elector("h:1", is_me=True, is_bound=True)

SAME = "all sums have the members of the first one: when this node has waited (--wait), the job stops"

ENDLESS = (
    "all sums have the members of the first one, and this node waits for them as long as it takes (--wait "
    "forever)"
)


def without_a(stage, missing=1, **more):
    """Returns an obstacle, and how A is called with its name and without."""
    found = Obstacle(stage, missing, (A,), Whose.LAST, **more)
    return found, f"10.0.0.3:1, {MADE}", f"{missing} peer{'s' * (missing > 1)}, {MADE}"


@pytest.mark.parametrize(
    ("found", "who", "nobody", "then"),
    [
        (FOUND, f"1 of: 10.0.0.3:1, a1b2c3d4, {MADE}", f"1 of 2 peers, {MADE}", MEANWHILE + HINT),
        (
            *(PATIENT, f"10.0.0.3:1, 10.0.0.5:1 (whose vote is bound), {QUORUM}", f"2 of 2 peers, {QUORUM}"),
            f"goes on without them after 5 more failed rounds{HINT}",
        ),
        (
            Obstacle(Stage.NEVER, 1, (ME,), Whose.NAMED),
            *(f"this node (whose vote is bound), {NAMED}", f"1 peer, {NAMED}", NEVER + HINT),
        ),
        (
            *without_a(Stage.COHORT),
            f"{SAME}, keeps what was agreed, and goes on once all are started again",
        ),
        (
            *without_a(Stage.COHORT_ENDLESS),
            f"{ENDLESS}; if they are gone for good: Ctrl-C, and --again at all that are left",
        ),
        (
            *without_a(Stage.ENDLESS),
            f"it waits for them as long as it takes (--wait forever), and no round is spent{HINT}",
        ),
        (
            Obstacle(Stage.TOO_FEW, 1, here=2, least=3, patience=PatienceLeft(amnesty_s=9.0)),
            *("1 peer more", "1 peer more", TWO_HERE),
        ),
        (*without_a(Stage.TOO_FEW, here=2, least=3), TWO_HERE),
        (
            *without_a(Stage.TOO_FEW, 2, here=1, least=3),
            f"a model takes at least 3 peers, and 1 is here{HAND_OVER}",
        ),
        (Obstacle(Stage.WILLING, 0, (), Whose.LAST), f"somebody {MADE}", f"somebody {MADE}", AS_LONG),
        (
            Obstacle(Stage.VERSIONS, 1, (A,), Whose.OTHERS),
            *(f"10.0.0.3:1, {OTHERS}", f"1 peer, {OTHERS}", f"no group can form without them: {UPGRADE}"),
        ),
    ],
)
def test_an_obstacle_in_words(found, who, nobody, then):
    assert waiting_text(found, NO_NICKNAMES, Path("my runs")) == f"waiting for {who}; {then}"
    assert nameless(found) == f"waiting for {nobody}; {then.removesuffix(HINT)}"


def test_those_who_count_as_gone_and_nobody_in_words():
    said = Obstacle(Stage.SAID, 0, (A, B), Whose.LAST, patience=PatienceLeft(amnesty_s=60.0))
    text = f"count as gone for good here; {ALL_SAY_SO}"
    assert waiting_text(said, NO_NICKNAMES, Path()) == f"10.0.0.3:1, a1b2c3d4 {text}"
    assert nameless(said) == f"2 peers {text}"
    assert waiting_text(None, NO_NICKNAMES, Path()) == nameless(None) == ""
    alone = Obstacle(Stage.TOO_FEW, 2, here=1, least=3)
    assert nameless(alone) == "waiting for 2 peers more; a model takes at least 3 peers, and 1 is here"


SILENT = "without a quorum those that are silent count as gone for good (aggregation.amnesty_s)"


@pytest.mark.parametrize(
    ("patience", "then"),
    [
        (PatienceLeft(1), "after 1 more failed round"),
        (PatienceLeft(2, wait_s=120.0), "after 2 more waits of 120 s"),
        (PatienceLeft(1, wait_s=120.0), "after 1 more wait of 120 s"),
        (PatienceLeft(0), "30 s after the first failed round"),
        (PatienceLeft(5, amnesty_s=90.0), f"after 5 more failed rounds; after 90 s {SILENT}"),
    ],
)
def test_what_follows_while_a_node_is_patient(patience, then):
    assert nameless(replace(PATIENT, patience=patience)).endswith(f"; goes on without them {then}")


def test_many_electors_are_counted_and_the_first_of_a_tie_is_named():
    many = tuple(Elector(f"h:{number}") for number in range(8))
    text = waiting_text(replace(PATIENT, missing=5, absent=many, tie=(many[0], 6)), NO_NICKNAMES, Path())
    assert text.startswith(
        "waiting for 5 of: h:0, h:1, h:2, h:3, h:4, h:5 and 2 more (h:0 among them, else 6), who"
    )


async def test_a_waiting_node_says_so_to_all_who_look(alone):
    node = alone("none")
    inspector = node.peer.inspector
    owner = NodeViewSource(inspector, Journal(lambda: 0.0), Rounds(node.folder / HISTORY))
    assert (await inspector.take()).waiting == (await owner.view()).waiting == ""
    inspector.node._obstacle = FOUND
    hint = f"{TEXT}; if they are gone for good: python -m node.rejoin --out {node.folder}"
    assert (await inspector.take()).waiting == hint
    view = await owner.view()
    assert (view.waiting, view.electors_missing) == (hint, 1)
    owner.ended = True
    view = await owner.view()
    assert (view.waiting, view.electors_missing) == ("", 0)
    inspector.node._hindered = FOUND
    await node.peer._perform(Waiting())
    assert json.loads(node.said.getvalue()) == {"event": "notice", "text": hint}


async def test_a_supervisor_is_told_that_a_node_waits_and_no_name(alone):
    inspector = alone("none").peer.inspector
    stopping = SimpleNamespace(asked=False)
    async with served(missing_of(inspector, stopping), lambda: inspector.troubles) as ask:
        assert await ask("/healthz") == (200, {"status": "ok"})
        inspector.node._obstacle = FOUND
        waiting = f"waiting for 1 of 2 peers, {MADE}; {MEANWHILE}"
        assert await ask("/healthz") == (200, {"status": "ok", "waiting": waiting})


def told(node, event):
    lines = map(json.loads, node.said.getvalue().splitlines())
    return [line for line in lines if line["event"] == event]


async def test_a_model_that_was_made_without_somebody_is_told_loudly_and_stands_in_the_history(alone):
    node = alone("none")
    node.peer._training = node.peer._train(1)
    made = ended(node, words(node, 0.5))
    await node.peer._perform(replace(made, without=(A, B), line=replace(FIRST, anchor=1)))
    await node.peer._history.catch_up()
    (warning,) = told(node, "warning")
    assert "generation 1 was agreed WITHOUT 10.0.0.3:1, a1b2c3d4, who count as gone" in warning["text"]
    (line,) = run_folders.history(node.folder)
    assert line["without"] == list(GONE) == told(node, "round")[0]["without"]


async def test_one_that_was_fetched_is_told_of_too(alone):
    node = alone("none")
    made = ended(node, words(node, 0.5))
    fetched = (
        made.group,
        made.result,
        made.contributors,
        made.certificate,
        b"k" * 32,
        None,
        (A, B),
    )
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
