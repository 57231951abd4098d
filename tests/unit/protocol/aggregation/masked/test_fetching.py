"""Requests for chunks of a total: a few at a time, from one source after the other."""

from protocol.actions import Send
from protocol.aggregation.masked.fetching import PATIENCE_S, WINDOW, Pull
from protocol.aggregation.participant import Participant, SessionTimeouts
from protocol.vectors.pieces import PIECE_BYTES
from tests import parts

NOW = parts.NOW
KEY, *OTHERS = parts.members(3)
CHUNKS = range(WINDOW + 2)


RATE = 64_000.0
TAKES_S = 2 * WINDOW * PIECE_BYTES / RATE


def pull() -> Pull:
    group, own = parts.group(parts.members(3)), parts.ephemeral(KEY)
    participant = Participant(group, 1, KEY, own, 5, SessionTimeouts(15.0, 15.0, RATE))
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


def test_a_source_whose_answers_are_on_their_way_has_the_time_for_them_once():
    here, (source, other) = pull(), (key.public for key in OTHERS)
    here.arriving(source)  # nobody was asked yet
    here.ask(NOW)
    here.arriving(other)
    assert here.deadline == NOW + PATIENCE_S
    for _ in range(2):
        here.arriving(source)
        assert here.deadline == NOW + PATIENCE_S + TAKES_S
    assert here.tick(NOW + PATIENCE_S) == []
    assert [to for to, _ in asked(here.tick(NOW + PATIENCE_S + TAKES_S))] == [other]
    assert here.deadline == NOW + PATIENCE_S + TAKES_S + PATIENCE_S
