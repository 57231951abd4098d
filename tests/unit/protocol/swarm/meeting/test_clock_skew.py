"""What a node shows of its peers' clocks, and when; nothing else depends on them."""

from protocol.swarm.meeting.clock_skew import Clocks, Skew
from protocol.wire.messages import Hello
from tests.parts import NOW, PARAMETERS, announce, base, endpoint, members, roster_of
from tests.unit.protocol.swarm.meeting.test_discovery import introduced

KEYS = members(5)
AHEAD_MS = int(1000 * (NOW + 100))


def shown(**ahead_s: float) -> Clocks:
    """Sets clocks of which `two`, `three`, ... are this far ahead."""
    clocks = Clocks()
    for name, by_s in ahead_s.items():
        clocks.heard(name.encode(), name, int(1000 * (NOW + by_s)), NOW)
    return clocks


def hello(key, base_of=base, clock_ms=AHEAD_MS, known=()) -> Hello:
    return Hello(announce(key, base=base_of), bytes(16), False, PARAMETERS, known, clock_ms=clock_ms)


def test_a_clock_is_shown_until_its_peer_is_forgotten_unless_it_does_not_say():
    clocks = shown(two=100, three=0)
    clocks.heard(b"four", "four", 0, NOW)
    assert clocks.ahead == {b"two": Skew("two", 100.0), b"three": Skew("three", 0.0)}
    clocks.keep((b"two", b"four"))
    assert clocks.ahead == {b"two": Skew("two", 100.0)}


def say(clocks, sent_s, arrives_s, behind_s=0.0):
    """A message of `two`, sent and arriving so long after NOW."""
    clocks.heard(b"two", "two", int(1000 * (NOW + sent_s - behind_s)), NOW + arrives_s)


def test_messages_that_an_outage_held_up_show_no_clock_that_is_behind():
    clocks = shown(two=-1, three=0)
    for sent_s in (1, 2, 7, 13.5, 22):
        say(clocks, sent_s, 24)
        assert not clocks.differ
    assert clocks.ahead[b"two"] == Skew("two", -2.0)


def test_a_clock_that_falls_behind_is_shown_with_the_second_message_that_says_so():
    clocks = shown(two=0, three=0)
    for at_s in (1, 3):
        say(clocks, at_s, at_s, 600)
        assert not clocks.differ
    say(clocks, 11, 11, 600)
    assert clocks.ahead[b"two"] == Skew("two", -600.0)
    say(clocks, 12, 12, 600.5)
    assert clocks.ahead[b"two"] == Skew("two", -600.5)


def test_what_was_doubted_before_this_machine_s_clock_was_set_says_nothing_later():
    clocks = shown(two=0, three=0)
    say(clocks, 1, 1, 600)
    clocks.step(1, 0.0)
    say(clocks, 12, 12, 600)
    assert not clocks.differ


def test_a_clock_that_is_set_while_the_node_runs_shows_another_time():
    clocks = shown(two=0)
    clocks.step(600, 0.0)
    assert clocks.shown_ms(NOW) == int(1000 * (NOW + 600))
    assert clocks.ahead == {b"two": Skew("two", -600.0)}
    assert clocks.set_s == 600


def test_a_machine_that_slept_was_not_set():
    clocks = shown(two=0)
    clocks.step(3600.0, 3600.0)
    assert clocks.shown_ms(NOW) == int(1000 * (NOW + 3600))
    assert clocks.ahead == {b"two": Skew("two", 0.0)}
    clocks.step(3500.0, 3600.0)
    assert (clocks.set_s, clocks.ahead[b"two"].ahead_s) == (-100.0, 100.0)


def test_a_node_shows_its_peers_clocks_when_it_has_met_them():
    found = introduced(seeds=(endpoint(KEYS[1]), endpoint(KEYS[2])))
    for key in KEYS[1:3]:
        found.hello(hello(key, base(0)), key.public, NOW)
        found.compare_clocks()
        assert found.joining == (found.compared == {})

    assert found.compared == {key.public: Skew(endpoint(key), 100.0) for key in KEYS[1:3]}


def test_who_comes_late_shows_nothing_before_it_has_heard_most_clocks():
    """The first peer that answers names the others: a report at once would blame the wrong clock."""
    found = introduced(seeds=(endpoint(KEYS[1]),))
    others = tuple(announce(key, base=base(3)) for key in KEYS[2:4])
    found.hello(hello(KEYS[1], base(3), known=others), KEYS[1].public, NOW)
    assert not found.joining
    found.compare_clocks()
    assert found.compared == {}

    found.hello(hello(KEYS[2], base(3)), KEYS[2].public, NOW)
    found.compare_clocks()
    assert len(found.compared) == 2


def test_a_tracker_s_clock_is_shown_with_where_it_listens():
    found = introduced(tracker="127.0.0.1:9")
    nonce = found._greetings["127.0.0.1:9"].nonce
    found.roster(roster_of(KEYS[4], nonce, clock_ms=AHEAD_MS), NOW)
    found.compare_clocks()
    assert found.compared == {KEYS[4].public: Skew("127.0.0.1:9", 100.0)}


def test_two_clocks_are_needed_before_a_peer_is_named_and_more_than_half_of_all():
    """Of two clocks nobody can tell which one is wrong: the peer's, or this machine's."""
    assert not shown(two=100).most_heard([b"two"])
    assert shown(two=100, three=0).most_heard([b"two", b"three"])
    assert shown(tracker=0, two=100).most_heard([b"two"])
    assert not shown(two=100, three=0).most_heard([b"two", b"three", b"four", b"five"])
    assert shown(tracker=100).most_heard([])
