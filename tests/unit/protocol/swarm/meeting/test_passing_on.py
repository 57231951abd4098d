"""A GROUP that the coordinator sent to some members only reaches the others, too."""

from __future__ import annotations

from protocol.actions import Completed
from protocol.swarm.meeting.passing_on import AFTER_S, MOST, PassingOn
from protocol.wire.messages import Group, Message
from tests.parts import NOW, endpoint, machines, members, rand, vector
from tests.wires import Wires

KEYS = members(5)
ONE, TWO, THREE, FOUR, FIVE = KEYS


class Some(Wires):
    """Five nodes whose coordinator sends its GROUP to the second alone."""

    def __init__(self) -> None:
        super().__init__(KEYS)
        self.groups: list[tuple[str, str]] = []
        self.dropped = self._drops
        self.open().offer()

    def _drops(self, sender: str, to: str, message: Message) -> bool:
        if isinstance(message, Group):
            self.groups.append((sender, to))
        coordinates = sender == endpoint(ONE) and to != endpoint(TWO)
        return coordinates and isinstance(message, Group)


def test_members_of_whom_nothing_comes_get_the_group_from_another_and_all_end_it():
    wires = Some()
    assert wires.ends(Completed) == []
    assert [wires[key].phase for key in (TWO, THREE)] == ["shares", "group"]
    wires.tick(AFTER_S, TWO)

    passed = [to for sender, to in wires.groups if sender == endpoint(TWO)]
    assert passed == [endpoint(key) for key in (THREE, FOUR, FIVE)]
    assert len(wires.ends(Completed)) == 5
    assert wires.errors == []


def test_a_group_that_is_known_is_ignored():
    wires = Some()
    ((_, own),) = [(sender, to) for sender, to in wires.groups if to == endpoint(TWO)]
    assert own == endpoint(TWO)
    wires.tick(AFTER_S, ONE)
    assert wires.errors == [], "the second has it from both"


def begun(count: int = 3) -> tuple[PassingOn, list]:
    passing, machine = PassingOn(), machines(count)
    machine[0].start(vector(1), rand(1), NOW)
    passing.begin(NOW)
    return passing, machine


def test_it_is_passed_on_once_after_a_while_to_a_few():
    passing, (mine, *_) = begun(MOST + 3)
    assert passing.deadline == NOW + AFTER_S
    assert passing.tick(mine, NOW + AFTER_S / 2) == []
    sent = passing.tick(mine, NOW + AFTER_S)
    assert [send.to for send in sent] == list(mine.waiting_for()[:MOST])
    assert passing.deadline is None
    assert passing.tick(mine, NOW + 9) == []


def test_of_a_session_that_is_over_nothing_is_passed_on():
    passing, _ = begun()
    assert passing.tick(None, NOW + AFTER_S) == []


def test_when_all_have_sent_something_nobody_lacks_it():
    passing, (mine, *_) = begun()
    mine.unreachable(mine.participant.others[0], NOW)
    assert mine.stage == "sums"
    assert passing.tick(mine, NOW + AFTER_S) == []
