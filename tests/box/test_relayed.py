"""Outages of a relay under virtual time: which links break, and that no message is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from protocol.relay.ways import CLOSED_S
from protocol.swarm.meeting.discovery import NOBODY_LISTENS
from tests.box.relayed import MemberProcess, RelayedBox
from tests.unit.node.links import bulk, small


@pytest.fixture
def box() -> Iterator[RelayedBox]:
    box = RelayedBox(seed=0)
    box.start()
    yield box
    box.close()


def linked(box: RelayedBox) -> tuple[MemberProcess, MemberProcess]:
    """Two members that have sent to each other, and go on to send."""
    here, there = box.nodes[:2]
    here.send(there, [small(0)])
    here.send(there, iter([bulk(0)]))
    there.send(here, [small(0)])
    box.loop.run_until(lambda: len(here.got) == 1 and len(there.got) == 2)
    return here, there


@pytest.mark.parametrize("away_s", [3.0, 12.0, 15.0])
def test_a_relay_that_is_back_soon_breaks_no_link(box: RelayedBox, away_s: float) -> None:
    """At 15 s the heartbeat of a link over TCP would have given up."""
    here, there = linked(box)
    (relay,) = box.relay_nodes
    relay.kill()
    for number in range(1, 10):
        here.send(there, [small(number)])
        there.send(here, [small(number)])
    here.send(there, (bulk(number) for number in range(1, 5)))
    box.run_for(away_s)
    assert (len(here.got), len(there.got)) == (1, 2)
    relay.start()
    box.run_for(30.0)
    assert len(there.got) == 15
    assert here.got == [small(number) for number in range(10)]
    assert [here.lost, there.lost, here.again, there.again] == [[]] * 4


def test_a_relay_that_is_away_for_long_ends_links_and_new_ones_open_after(box: RelayedBox) -> None:
    here, there = linked(box)
    (relay,) = box.relay_nodes
    relay.kill()
    begun_s = box.loop.time()
    box.run_for(40.0)
    for node in (here, there):
        assert node.lost
        assert NOBODY_LISTENS not in {why for _, why in node.lost}
        assert 25.0 <= node.lost[0][0] - begun_s <= 40.0
    relay.start()
    box.run_for(15.0)
    here.send(there, [small(1)])
    there.send(here, [small(1)])
    box.loop.run_until(lambda: here.got[-1] == there.got[-1] == small(1))


@pytest.mark.parametrize("silently", [False, True])
def test_a_member_that_is_killed_is_missed_within_seconds_or_when_it_is_silent(
    box: RelayedBox, silently: bool
) -> None:
    here, there = linked(box)
    there.kill(silently=silently)
    begun_s = box.loop.time()
    here.send(there, [small(1)])
    box.loop.run_until(lambda: bool(here.lost))
    took_s = here.lost[0][0] - begun_s
    # The stream ends; so does another one, if it was opened in its place meanwhile.
    shortest_s, longest_s = (25.0, 75.0) if silently else (CLOSED_S, 2 * CLOSED_S + 2.0)
    assert shortest_s <= took_s < longest_s
    there.start()
    box.run_for(5.0)
    here.send(there, [small(2)])
    box.loop.run_until(lambda: there.got[-1] == small(2))


@pytest.mark.parametrize("silently", [False, True], ids=["killed", "without power"])
def test_a_second_relay_takes_over_without_a_lost_message_and_hands_back(silently: bool) -> None:
    box = RelayedBox(seed=1, members=3, relays=2)
    box.start()
    here, there = linked(box)
    first, second = box.relay_nodes
    third = box.nodes[2]
    for number in range(1, 21):
        here.send(there, iter([bulk(number)]))
        there.send(here, [small(number)])
        third.send(here, [small(100 + number)])
        match number:
            case 5:
                first.kill(silently=silently)
            case 10:
                box.run_for(50.0)  # longer than a carrier is silent before it is opened again
            case 12:
                first.start()
            case 16:
                second.kill(silently=silently)
        box.run_for(1.0)
    box.run_for(60.0)
    assert [each for each in there.got if each != small(0)] == [bulk(number) for number in range(21)]
    of_third = [small(100 + number) for number in range(1, 21)]
    assert [each for each in here.got if each in of_third] == of_third
    assert [each for each in here.got if each not in of_third] == [small(number) for number in range(21)]
    assert [node.lost for node in box.nodes] == [[]] * 3
    box.close()


def test_a_relay_that_passes_on_nothing_is_left_without_a_lost_message() -> None:
    box = RelayedBox(seed=2, relays=2)
    box.start()
    here, there = linked(box)
    box.relay_nodes[0].go_mute()
    begun_s = box.loop.time()
    for number in range(1, 6):
        here.send(there, iter([bulk(number)]))
        there.send(here, [small(number)])
    box.loop.run_until(lambda: len(there.got) == 7 and len(here.got) == 6)
    assert 5.0 < box.loop.time() - begun_s < 15.0
    assert [each for each in there.got if each != small(0)] == [bulk(number) for number in range(6)]
    assert here.got == [small(number) for number in range(6)]
    assert [node.lost for node in box.nodes] == [[]] * 2
    assert here.streams.presence[there.key.public].relay == box.relays[1].endpoint
    box.close()


def test_bulk_of_a_minute_goes_over_a_slow_line(box: RelayedBox) -> None:
    """Over TCP 30 s are allowed; a relay shares a site's line among all members."""
    here, there = linked(box)
    box.network.narrow(here.number, up=20_000, down=20_000)
    large = replace(bulk(1), payload=bytes(1_300_000))
    begun_s = box.loop.time()
    here.send(there, iter([large]))
    here.send(there, [small(1)])
    box.run_for(10.0)
    assert there.got[-1] == small(1)  # bulk is not in its way
    box.run_for(100.0)
    assert there.got[-1] == large
    assert box.loop.time() - begun_s > 60.0
    assert [here.lost, there.lost] == [[], []]
