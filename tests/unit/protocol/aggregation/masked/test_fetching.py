"""Requests for chunks of a total: a few at a time, from one source after the other."""

from protocol.actions import Send
from protocol.aggregation.masked.fetching import PATIENCE_S, WINDOW, Pull
from protocol.aggregation.participant import Participant
from tests import parts

NOW = parts.NOW
KEY, *OTHERS = parts.members(3)
CHUNKS = range(WINDOW + 2)


def pull() -> Pull:
    participant = Participant(parts.group(parts.members(3)), 1, KEY, parts.ephemeral(KEY), 5, 15.0, 15.0)
    return Pull(participant, CHUNKS, [key.public for key in OTHERS])


def asked(actions: list) -> list[tuple[bytes, list[int]]]:
    assert all(isinstance(action, Send) for action in actions)
    return [(action.to, [request.index for request in action.messages]) for action in actions]


def test_a_chunk_that_came_in_another_way_makes_room_for_the_next():
    here, source = pull(), OTHERS[0].public
    assert asked(here.ask(NOW)) == [(source, list(CHUNKS[:WINDOW]))]
    assert asked(here.left(CHUNKS[1:], NOW)) == [(source, [WINDOW])]
    assert asked(here.left(CHUNKS[1:], NOW)) == []
    assert asked(here.left(CHUNKS[WINDOW:], NOW)) == [(source, [WINDOW + 1])]


def test_the_next_source_is_asked_only_for_what_is_missing_still():
    here = pull()
    here.ask(NOW)
    here.left(CHUNKS[WINDOW:], NOW)
    assert here.tick(NOW + PATIENCE_S - 0.1) == []
    assert asked(here.tick(NOW + PATIENCE_S)) == [(OTHERS[1].public, list(CHUNKS[WINDOW:]))]


def test_once_nothing_is_missing_nobody_is_asked():
    here = pull()
    here.ask(NOW)
    assert here.left((), NOW) == []
    assert here.deadline is None
    assert here.tick(NOW + PATIENCE_S) == []
