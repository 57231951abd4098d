"""The data of a page: a real tracker seen from outside, and a node whose ledger changes with each step."""

from pathlib import Path

import pytest

from node.net.relay import streams as relayed
from node.net.traffic import Counts
from node.observe.history_reader import Rounds
from node.observe.journal import Journal
from node.observe.view_sources import NodeViewSource, TrackerViewSource
from node.observe.views import Presence, Swarm, Visitor
from node.relay.relaying import RelayView
from node.runtime.shell import Shell
from node.storage.nicknames import Nicknames
from node.tracker.options import parse_arguments
from protocol.actions import Due, Spend, Withheld
from protocol.swarm.meeting.tracker import Tracker
from protocol.wire.endpoints import of_key
from protocol.wire.messages import Hello
from protocol.wire.signing import parameters_hash
from tests.parts import COUNTER, PARAMETERS, announce, base, endpoint, heard, members, ready, stranger

KEYS = members(4)
TRACKER = stranger()
CARRIED = RelayView((), 0, 0, 0, 0, 0, 0, {})


@pytest.fixture
async def seen():
    tracker = Tracker(TRACKER, 3, None)

    async def perform(_):
        return []

    shell = Shell(tracker, lambda _: None, perform, heavy=False)
    return tracker, TrackerViewSource(tracker, shell, Counts(), TRACKER.public.hex(), {"groups": "of 3"})


async def test_who_is_here_is_seen_with_what_each_is_doing(seen):
    tracker, source = seen
    view = await source.view()
    assert (view.swarms, view.peers, view.remarks, view.ended) == ((), 0, (), False)
    now = source.now()
    fresh = {"counter": COUNTER, "base": base(2)}
    for key in KEYS[:2]:
        heard(tracker, ready(key, TRACKER.public, **fresh), now)
    heard(tracker, Hello(announce(KEYS[2], **fresh, following=True), bytes(16), False, PARAMETERS), now)
    heard(tracker, Hello(announce(KEYS[3], **fresh), bytes(16), False, PARAMETERS), now)
    tracker.unreachable(endpoint(KEYS[3]), "connection refused", now)
    source.remark("somebody is here")
    view = await source.view()
    states = ("ready", "ready", "follows", "unreachable")
    visitors = tuple(
        Visitor(endpoint(key), key.public.hex()[:16], 2, state)
        for key, state in zip(KEYS, states, strict=True)
    )
    swarm = Swarm("digits", parameters_hash(PARAMETERS).hex()[:16], visitors, 2, 3, 0)
    assert (view.swarms, view.peers, view.key) == ((swarm,), 4, TRACKER.public.hex())
    assert [remark.text for remark in view.remarks] == ["somebody is here"]
    assert view.about == {"groups": "of 3"}


async def test_a_nodes_page_counts_steps_and_what_they_cost_at_most_once_a_moment(alone):
    node = alone("distributed-dp-sgd")
    source = NodeViewSource(node.peer.inspector, Journal(lambda: 0.0), Rounds(node.folder / "history.jsonl"))
    first = await source.view()
    assert (first.report_every, first.steps, first.round, first.generation) == (3, 6, 0, 0)
    assert first.privacy["steps_charged"] == 0
    node.peer._train(1)
    node.peer._contribution.spend(Spend(bytes(32), 1, 0), 1)
    soon = await source.view()
    assert soon.privacy == {**first.privacy, "steps_charged": 1}, "its cost is not worked out yet"
    source.ended = True
    last = await source.view()
    assert last.privacy["steps_charged"] == 1
    assert last.privacy["epsilon_alone"] > last.privacy["epsilon_spent"] > 0


async def test_a_nodes_page_makes_curves_once_for_a_base_and_keeps_since_when_it_waits(alone, monkeypatch):
    node, made = alone("none"), []
    inspector = node.peer.inspector
    history = node.folder / "history.jsonl"
    source = NodeViewSource(inspector, Journal(lambda: 0.0), Rounds(history), curves=lambda: made.append(1))
    await source.view()
    first = await source.view()
    assert (len(made), first.exact, first.over, first.purpose) == (1, False, False, "")
    history.write_text('{"round": 1}\n')
    object.__setattr__(inspector.plan, "purposes", (("cells", 1), ("curves", 2)))
    monkeypatch.setattr(type(inspector), "waiting", "waiting for ward b")
    since = [(await source.view()).waiting_since for _ in range(2)]
    assert since[0] == since[1] is not None
    monkeypatch.setattr(type(inspector), "waiting", "")
    last = await source.view()
    assert (len(made), last.purpose, last.waiting_since) == (1, "cells", None)


async def test_a_peer_that_withholds_is_shown_with_its_name_and_for_how_long_it_is_left_out(alone):
    node = alone("none")
    names = Nicknames({KEYS[1].public: "ward b"})
    object.__setattr__(node.peer.inspector.plan, "nicknames", names)
    session, key = node.peer._node, KEYS[1].public
    there = announce(KEYS[1], task="digits", parameters=node.parameters)
    await node.peer._shell.feed(lambda now: session.receive(Hello(there, bytes(16), False, ""), key, now))
    for number in range(2):
        session._suspicion.failed(Withheld(bytes([number] * 32), Due.VECTOR, (key,)), 4, 0.0, 0.0)
    view = await NodeViewSource(node.peer.inspector, Journal(lambda: 0.0), Rounds(node.folder / "h")).view()
    assert (view.report_every, view.steps) == (None, None), "a page of updates has no steps"
    (peer,) = (each for each in view.peers if each.key is not None)
    assert (peer.name, peer.why) == ("ward b", "withholds: left out for 4 rounds")


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (relayed.Presence("relay.example:443"), Presence("relay.example", None, "")),
        (relayed.Presence(None, 7.0, "it broke"), Presence("", 1007.0, "it broke")),
        (relayed.Presence(None), Presence("", None, "")),
    ],
)
async def test_a_member_that_is_reached_by_its_key_is_shown_with_when_it_was_last_there(alone, seen, shown):
    """The clock of a wall is 1,000 s ahead of that by which relays are watched."""
    node, key = alone("none"), KEYS[1].public
    object.__setattr__(node.peer.inspector.plan, "nicknames", Nicknames({key: "ward b"}))
    node.peer._shell.clock._offset = 1000.0
    node.peer._node._discovery.greet(of_key(key), 0.0)
    kept, relays = (Journal(lambda: 0.0), Rounds(node.folder / "h")), {"carried": lambda: CARRIED}
    view = await NodeViewSource(node.peer.inspector, *kept, there=lambda: {key: seen}, **relays).view()
    (peer,) = (each for each in view.peers if each.presence is not None)
    assert (peer.name, peer.key, peer.presence) == ("ward b", key.hex()[:16], shown)
    assert view.relay is CARRIED


def test_where_the_token_is_kept_can_be_said():
    listen, file = ["--listen", "127.0.0.1:0"], "secret/page.token"
    assert parse_arguments(listen).page_token is None
    assert parse_arguments([*listen, "--page-token", file]).page_token == Path(file)
