"""Groups without a member that withholds: what it can spoil, and that honest members block nobody."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from protocol.actions import Completed, Due, Failed, Fault, Send, Spend, Strike, Withheld
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.relay.streams import NO_RELAY
from protocol.swarm.meeting.coordinator_turns import MISSED
from protocol.wire.ids import Key
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    MaskedMessage,
    Release,
    Total,
)
from protocol.wire.messages import Accepted, Group, LeftOut, Ready, Stalled
from tests.parts import NOW, endpoint, group_of, members
from tests.wires import Wires, node

KEYS = members(5)
REDUCERS = 0
LEAVE_OUT = 4
SETUP = (Join, Joined, JoinCertificate)
Drops = Callable[[str, str, Any], bool]


class Swarm(Wires):
    """A swarm that takes single steps; counts the charges of each node."""

    def __init__(self, keys=KEYS, layout: int = REDUCERS, **changes: Any) -> None:
        settings = {
            "sums": 10_000,
            "by_steps": True,
            "masked": MaskedSettings(None, None, layout, honest=2),
            "shares": ShareSettings("seed", None, 100.0),
            "leave_out": LEAVE_OUT,
            **changes,
        }
        super().__init__(keys, **settings)
        self.charges: Counter[str] = Counter()
        self._offers = 0
        self.open()

    def carry_out(self, where, actions) -> None:
        for action in actions:
            self.charges[where] += isinstance(action, Spend)
            super().carry_out(where, [action])

    def steps(self, count: int) -> "Swarm":
        """So many times, all that are idle offer, and the time of what they wait for passes."""
        for _ in range(count):
            for key in self.keys:
                if self[key].status.phase == "idle":
                    self._offers += 1
                    vector = np.ones(5, dtype="<f4")
                    self.carry_out(
                        endpoint(key), self[key].offer(vector, self._offers.to_bytes(32, "big"), self.now)
                    )
            self.quiet()
            for _ in range(40):
                if all(self[key].status.phase in ("idle", "group") for key in self.keys):
                    break
                self.tick(1.0)
            self.tick(1.0)
        return self

    def generation(self) -> int:
        return max(self[key].base.generation for key in self.keys)

    def failed(self, key) -> list[Failed]:
        return [end for where, end in self.ends(Failed) if where == endpoint(key) and end.sid is not None]

    def sizes(self) -> list[int]:
        """Returns the size of each sum that the node with the lowest key was in."""
        ends = [end for where, end in self.ends(Completed) if where == endpoint(KEYS[0])]
        return [len(end.contributors) for end in ends]

    def left_out(self, *keys) -> list[tuple[Key, ...]]:
        return [self[key].picture().left_out for key in keys]


def withholds(*keys, to=KEYS, kinds: tuple[type, ...] = (), setup: tuple[type, ...] = SETUP) -> Drops:
    """These join, and then send nothing of a session (or nothing of these `kinds`) to some."""
    ends, targets = {endpoint(key) for key in keys}, {endpoint(key) for key in to}

    def dropped(sender: str, there: str, message: Any) -> bool:
        is_due = isinstance(message, kinds or MaskedMessage) and not isinstance(message, setup)
        return sender in ends and there in targets and is_due

    return dropped


def others_of(*keys) -> list:
    return [key for key in KEYS if key not in keys]


def suspects(wires: Swarm, who, whom) -> None:
    """Makes a node leave another out, rightly or not."""
    for number in range(2):
        wires[who]._suspicion.failed(
            Withheld(bytes([number] * 32), Due.VECTOR, (whom.public,)), 4, 0.0, wires.now
        )


def test_two_that_suspect_each_other_or_different_ones_block_nobody():
    wires = Swarm()
    suspects(wires, KEYS[0], KEYS[1])
    suspects(wires, KEYS[1], KEYS[2])
    wires.steps(1)

    assert wires.generation() == 1
    (sizes,) = {len(end.contributors) for _, end in wires.ends(Completed)}
    assert sizes == 4, "one of the two pairs shares a member, and that one waits"
    wires.steps(LEAVE_OUT + 2)
    assert len(wires.ends(Completed)[-1][1].contributors) == 5, "all are back"
    assert not wires.errors


@pytest.mark.parametrize(("why", "left"), [(NO_RELAY, ()), ("does not answer", (KEYS[1].public,))])
def test_who_finds_no_relay_holds_the_session_before_against_nobody(why, left):
    one = node(KEYS[0], leave_out=LEAVE_OUT)
    one._suspicion.failed(Withheld(bytes(32), Due.VECTOR, (KEYS[1].public,)), 4, 0.0, NOW)
    one.unreachable(endpoint(KEYS[2]), why, NOW)
    assert one.picture().left_out == left


@pytest.mark.parametrize("number", [0, 3])
def test_an_honest_one_that_all_others_suspect_is_back_in_time(number):
    suspect = KEYS[number]
    wires = Swarm()
    for key in others_of(suspect):
        suspects(wires, key, suspect)
    wires.steps(LEAVE_OUT)
    assert {where for where, node in wires.nodes.items() if node.picture().out_by} == {endpoint(suspect)}
    assert {len(end.contributors) for _, end in wires.ends(Completed)} == {4}
    assert wires.generation() == LEAVE_OUT
    wires.steps(2)
    assert len(wires.ends(Completed)[-1][1].contributors) == 5


def test_where_too_few_others_are_there_the_group_has_the_member_and_its_good_step_ends_the_time():
    wires = Swarm(KEYS[:4], min_participants=4, masked=MaskedSettings(None, None, REDUCERS, honest=1))
    suspects(wires, KEYS[1], KEYS[2])
    wires.steps(1).tick(30.0)

    assert [len(end.contributors) for _, end in wires.ends(Completed)] == [4] * 4
    assert wires[KEYS[1]].picture().left_out == ()


def test_who_was_told_of_another_group_is_not_left_out_for_what_it_does_not_send():
    """Else a coordinator would choose whom the others leave out."""
    wires, (liar, victim) = Swarm(), (KEYS[0], KEYS[3])

    def divided(sender: str, there: str, message: Any) -> bool:
        if not isinstance(message, Group) or (sender, there) != (endpoint(liar), endpoint(victim)):
            return False
        fewer = [ready for ready in message.readys if ready.key != KEYS[4].public]
        wires.hand(there, group_of(fewer, liar), sender)
        return True

    wires.dropped = divided
    wires.steps(2)
    struck = {(action.key, action.fault) for _, action in wires.told if isinstance(action, Strike)}
    assert struck == {(liar.public, Fault.IN_TWO)}
    assert wires.generation() > 0


@pytest.mark.parametrize("is_accepted", [True, False])
def test_who_waits_while_its_coordinator_makes_group_after_group_without_it_says_so_to_all(is_accepted):
    wires, (coordinator, last), said = Swarm(masked=None, by_steps=False), (KEYS[0], KEYS[4]), []

    def kept_waiting(sender: str, there: str, message: Any) -> bool:
        if sender == endpoint(last) and isinstance(message, Stalled):
            said.append(wires.generation())
        if (sender, there) != (endpoint(last), endpoint(coordinator)) or not isinstance(message, Ready):
            return False
        if is_accepted:
            wires.hand(sender, Accepted(message.nonce), there)
        return True

    wires.dropped = kept_waiting
    while wires.generation() < MISSED + 2:
        wires.steps(1)
    assert {generation for generation in said if generation} == (
        {MISSED + 1, MISSED + 2} if is_accepted else set()
    )


# -- what one node can know ----------------------------------------------------------------------------------


def named(found: Withheld | None) -> tuple[Due, tuple[Key, ...]] | None:
    return None if found is None else (found.due, found.keys)


def session(drops: Drops, layout: int = REDUCERS, keys=KEYS) -> dict[Any, Withheld | None]:
    """Returns what each node concludes from one session."""
    wires = Swarm(keys, layout=layout)
    wires.dropped = drops
    wires.steps(1)
    return {key: ends[0].withheld if (ends := wires.failed(key)) else None for key in keys}


@pytest.mark.parametrize("layout", [REDUCERS, ALL_TO_ALL_BYTES])
def test_who_sends_nothing_after_joining_is_named_by_all_others(layout):
    found = session(withholds(KEYS[2]), layout)
    about = [found[key] for key in others_of(KEYS[2])]

    assert {one.keys for one in about if one is not None} == {(KEYS[2].public,)}
    assert {one.due for one in about if one is not None} <= {Due.VECTOR, Due.VOTE}
    assert None not in about


def test_a_vector_withheld_from_one_member_is_seen_by_that_one_and_the_others_name_nobody():
    """It says in its votes that the chunk is missing: so the others do not blame it for its total.

    To the one that withholds it says of a chunk that was sent that it was not.
    """
    victim, silent = KEYS[0], KEYS[2]
    found = session(withholds(silent, to=[victim], kinds=(Masked,)))

    assert named(found[victim]) == (Due.VECTOR, (silent.public,))
    assert named(found[silent]) == (Due.TOTAL, (victim.public,))
    assert [found[key] for key in others_of(silent, victim)] == [None] * 3


def test_a_reducer_that_withholds_its_total_is_named_by_all():
    found = session(withholds(KEYS[0], kinds=(Total,)))
    assert [named(found[key]) for key in KEYS[1:]] == [(Due.TOTAL, (KEYS[0].public,))] * 4


def test_a_sum_that_waits_for_a_check_in_vain_names_who_owes_it():
    wires = Swarm()
    wires.dropped = withholds(KEYS[2], kinds=(Check,))
    wires.steps(3)
    assert wires.generation() == 3
    assert wires.left_out(*others_of(KEYS[2])) == [(KEYS[2].public,)] * 4
    assert not any(wires.failed(key) for key in KEYS)


def test_a_member_that_is_lost_gets_no_strike_from_a_sum_that_did_not_wait_for_it():
    wires = Swarm(masked=MaskedSettings(None, None, REDUCERS))
    wires.dropped = withholds(KEYS[3])
    wires.offer()
    for key in others_of(KEYS[3]):
        lost = wires[key].unreachable(endpoint(KEYS[3]), "connection refused", wires.now)
        wires.carry_out(endpoint(key), lost)
    wires.quiet()
    assert wires.generation() == 1
    assert wires.sizes() == [4]
    assert {wires[key]._suspicion.strikes(KEYS[3].public) for key in KEYS} == {0}


@pytest.mark.parametrize("kind", [Ack, Release])
def test_a_session_goes_on_without_the_last_messages_of_as_many_as_may_fall_silent(kind):
    wires = Swarm()
    wires.dropped = withholds(KEYS[2], kinds=(kind,))
    wires.steps(3)
    assert wires.generation() == 3
    assert wires.left_out(*others_of(KEYS[2])) == [()] * 4


def test_where_all_must_release_who_does_not_is_named():
    """In four with one honest other each, nobody may fall silent at the end."""
    wires = Swarm(KEYS[:4], masked=MaskedSettings(None, None, ALL_TO_ALL_BYTES, honest=1))
    wires.dropped = withholds(KEYS[2], kinds=(Ack,))
    wires.steps(1)
    ends = [wires.failed(key)[0].withheld for key in (KEYS[0], KEYS[1], KEYS[3])]
    assert [named(end) for end in ends] == [(Due.ANSWER, (KEYS[2].public,))] * 3


def test_a_vector_that_one_of_four_lacks_is_passed_on_to_it_and_nobody_is_named():
    """Those that have it have acknowledged the sum, and pass on what makes it."""
    wires = Swarm(KEYS[:4], masked=MaskedSettings(None, None, ALL_TO_ALL_BYTES, honest=1))
    wires.dropped = withholds(KEYS[2], to=[KEYS[3]], kinds=(Masked,))
    wires.steps(1)

    assert wires.generation() == 1
    assert not wires.failed(KEYS[3])


def test_a_node_that_was_cut_off_from_a_sum_that_the_others_made_takes_its_strike_back():
    """It lacks one vector, and hears of no end of the session: so it blames the one whose vector it lacks."""
    wires = Swarm(layout=ALL_TO_ALL_BYTES)
    deaf, blamed = KEYS[4], KEYS[1]
    wires.dropped = lambda sender, to, message: (
        to == endpoint(deaf)
        and not isinstance(message, (*SETUP, Ready, Group))
        and (sender == endpoint(blamed) or not isinstance(message, Masked))
    )
    wires.steps(1)
    assert wires.generation() == 1
    assert named(wires.failed(deaf)[0].withheld) == (Due.VECTOR, (blamed.public,))
    assert wires[deaf]._suspicion.strikes(blamed.public) == 1
    wires.dropped = lambda *_: False
    for key in others_of(deaf):
        wires.carry_out(endpoint(deaf), wires[deaf].reconnected(endpoint(key), wires.now))
    wires.quiet().tick(3.0).tick(3.0)

    assert wires[deaf].base == wires[KEYS[0]].base
    assert wires[deaf]._suspicion.strikes(blamed.public) == 0


@pytest.mark.parametrize("setup", [(), (Join,)])
def test_who_does_not_join_costs_no_charge_and_the_others_go_on_without_it(setup):
    wires = Swarm()
    wires.dropped = withholds(KEYS[2], setup=setup)
    wires.steps(6)
    assert wires.generation() >= 5
    assert wires.sizes() == [4] * wires.generation()
    assert {wires.charges[endpoint(key)] for key in others_of(KEYS[2])} == {wires.generation()}
    assert wires.left_out(*others_of(KEYS[2])) == [(KEYS[2].public,)] * 4


def test_a_coordinator_that_does_not_listen_is_left_for_another_one():
    """It puts a member that withholds into every group: who suspects that one asks the next coordinator."""
    wires = Swarm()
    deaf, silent = KEYS[0], KEYS[3]
    wires.dropped = lambda sender, to, message: (
        withholds(silent)(sender, to, message) or (to == endpoint(deaf) and isinstance(message, LeftOut))
    )
    wires[deaf]._settings.task.__dict__["leave_out"] = 0
    wires.steps(2)
    for _ in range(4):
        wires.steps(6)  # the next coordinator waits 5 s for those that did not come

    assert max(len(wires.failed(key)) for key in others_of(deaf, silent)) <= 3
    assert wires.generation() >= 4


def test_whom_to_leave_out_is_taken_only_from_a_peer_that_may_be_ready_here():
    wires = Swarm()
    wires.errors.clear()
    wires.hand(endpoint(KEYS[0]), LeftOut(bytes(16), (KEYS[1].public,)), "127.0.0.1:1")
    wires.hand(endpoint(KEYS[0]), Stalled(bytes(32), 1), "127.0.0.1:1")
    assert [str(error) for error in wires.errors] == [
        "whom to leave out, from a peer that this node does not accept",
        "a STALLED, from a peer that this node does not accept",
    ]


def test_a_join_withheld_from_one_member_is_no_fault_of_that_one():
    """It cannot vote, and all miss its vote: the two keep apart, and the others blame neither."""
    victim, silent = KEYS[0], KEYS[2]
    wires = Swarm()
    wires.dropped = withholds(silent, to=[victim], kinds=(Join,), setup=())
    wires.steps(6)

    assert wires.generation() >= 4
    assert {wires[key]._suspicion.strikes(victim.public) for key in others_of(victim, silent)} == {0}
    assert wires[victim].picture().left_out == (silent.public,)


def lose(wires: Swarm, who, whom) -> list[LeftOut]:
    """A node cannot reach another; returns whom it then asks to leave out."""
    actions = wires[who].unreachable(endpoint(whom), "no answer", wires.now)
    asked = [m for each in actions if isinstance(each, Send) for m in each.messages if isinstance(m, LeftOut)]
    wires.carry_out(endpoint(who), actions)
    return asked


@pytest.mark.parametrize("who", [0, 1])  # 0 coordinates
def test_who_waits_for_a_group_asks_to_be_kept_apart_from_whom_it_cannot_reach_until_it_hears_it(who):
    wires = Swarm()
    wires.offer(*KEYS[:4])
    asked = lose(wires, KEYS[who], KEYS[3])
    wires.quiet()
    room = wires[KEYS[0]]._coordination.matchmaker.room(
        wires[KEYS[0]]._state.announce(wires[KEYS[0]]._settings).swarm
    )
    assert room.apart[KEYS[who].public][1] == (KEYS[3].public,)
    assert [each.keys for each in asked] == [(KEYS[3].public,)] * who, "it tells itself nothing"
    assert wires[KEYS[who]].picture().left_out == (), "it has withheld nothing"

    wires.carry_out(endpoint(KEYS[3]), wires[KEYS[3]]._discovery.greet(endpoint(KEYS[who]), wires.now))
    wires.quiet()
    assert room.apart[KEYS[who].public][1] == ()
