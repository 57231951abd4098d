"""Rooms and tickets alone: who is evicted first, and what a lost ticket allows."""

import re
from pathlib import Path

from node.net.incoming.doors import (
    BODY_LEAST_BYTES_PER_S,
    BOUNDS,
    MEMBER_BODY_LEAST_BYTES_PER_S,
    MIB,
    OTHER_DESCRIPTORS,
    ROOMS,
    origin_of,
)
from node.net.incoming.rooms import Bound, Room
from node.net.incoming.tickets import TICKET_BYTES, Tickets


def entered(room, who, origin, now_s=0.0, weight=1):
    return list(room.enter(who, origin, now_s, weight))


def test_of_one_origin_the_oldest_goes_and_where_all_is_full_the_oldest_of_all():
    room = Room(Bound(in_all=3, per_origin=2))
    assert [entered(room, who, "one") for who in "ab"] == [[], []]
    assert entered(room, "x", "other") == []
    assert entered(room, "c", "one") == ["a"]
    assert list(room) == ["b", "x", "c"]
    assert entered(room, "y", "third") == ["b"]
    assert entered(room, "x", "other") == []  # who made progress is the newest
    assert entered(room, "z", "third") == ["c"]


def test_weights_count_and_the_newest_never_goes_for_its_own_weight():
    room = Room(Bound(in_all=10, per_origin=6))
    assert entered(room, "a", "one", weight=3) == []
    assert entered(room, "b", "one", weight=3) == []
    assert entered(room, "b", "one", weight=5) == ["a"]
    assert entered(room, "b", "one", weight=9) == []
    assert room.weight == 9
    assert entered(room, "c", "other", weight=2) == ["b"]
    room.leave("c")
    assert (len(room), room.weight, room._weight_of_origin) == (0, 0, {})


def test_who_is_overdue_leaves():
    room = Room(Bound(in_all=3, per_origin=3, within_s=5.0))
    for when, who in enumerate("abc"):
        entered(room, who, "one", now_s=float(when))
    assert list(room.overdue(4.9)) == []
    assert list(room.overdue(6.5)) == ["a", "b"]
    assert list(room) == ["c"]
    endless = Room(Bound(3, 3))
    entered(endless, "a", "one")
    assert list(endless.overdue(1e9)) == []


def test_a_ticket_is_worth_something_until_it_is_forgotten_and_there_are_only_so_many():
    tickets = Tickets(at_most=2)
    first, second = tickets.issue(b"key"), tickets.issue(b"key")
    assert first != second
    assert len(first) == TICKET_BYTES
    assert tickets.owner(first) == b"key"
    assert tickets.owner(b"") is tickets.owner(bytes(TICKET_BYTES)) is None
    tickets.forget(first)
    tickets.forget(first)
    assert (tickets.owner(first), tickets.owner(second)) == (None, b"key")
    issued = [tickets.issue(bytes([number])) for number in range(4)]
    assert [tickets.owner(ticket) for ticket in (second, *issued)] == [None, None, None, b"\2", b"\3"]
    assert len(tickets) == 2


def test_few_descriptors_shrink_every_room_and_leave_nobody_out():
    assert BOUNDS.within(BOUNDS.rooms.connections + OTHER_DESCRIPTORS) is BOUNDS
    few = BOUNDS.within(1024)
    assert few.rooms.connections <= 512
    for name in ROOMS:
        bound = getattr(few.rooms, name)
        assert 1 <= bound.per_origin <= bound.in_all
        assert bound.within_s == getattr(BOUNDS.rooms, name).within_s
    assert BOUNDS.within(4).rooms.members.in_all == 1


def test_who_has_a_network_of_addresses_counts_as_one():
    assert origin_of("2001:db8:0:1::1") == origin_of("2001:db8:0:1:ffff::2") != origin_of("2001:db8:0:2::1")
    assert origin_of("::ffff:10.0.0.1") == origin_of("10.0.0.1") != origin_of("10.0.0.2")
    assert origin_of("fe80::1%eth0") == origin_of("fe80::2")
    assert origin_of("") == ""


def test_the_table_of_bounds_is_what_is_kept():
    page = (Path(__file__).resolve().parents[5] / "docs" / "operating.md").read_text("utf-8")
    part = page.partition("## What strangers may take\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if "|" in line
    ]
    said = [(int(row[1]), int(row[2].split()[0]), row[3]) for row in rows[2:]]
    never = {None: "never"}
    rooms = [
        (bound.in_all, bound.per_origin, never.get(bound.within_s, f"{bound.within_s or 0:g} s"))
        for bound in BOUNDS.rooms.by_name.values()
    ]
    after = f"kB/s after {BOUNDS.body_grace_s:g} s"
    bulk = "twice what all bulk of a step takes at `aggregation.least_rate`, and the time of its step"
    ends = [
        f"{BOUNDS.body_bytes.within_s:g} s, or slower than {BODY_LEAST_BYTES_PER_S // 1024} {after}",
        f"{bulk}; or slower than {MEMBER_BODY_LEAST_BYTES_PER_S // 1000} {after}",
    ]
    bodies = [
        (bound.in_all // MIB, bound.per_origin // MIB, end)
        for bound, end in zip((BOUNDS.body_bytes, BOUNDS.member_body_bytes), ends, strict=True)
    ]
    assert said == rooms + bodies
    accepted = re.search(r"(\d+) connections a second .* and (\d+) at once", part)
    assert accepted
    assert [float(number) for number in accepted.groups()] == [BOUNDS.accepts_per_s, BOUNDS.accepts_saved]
    assert f"{BOUNDS.rooms.connections + OTHER_DESCRIPTORS:,} that these bounds want" in part
