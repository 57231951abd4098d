"""Why no group forms: who is missing, what follows, and when it is reported."""

from dataclasses import replace

import pytest

from protocol.actions import Completed, Failed, Note, Notice, OpenVote
from protocol.quorum.electorate import Electorate, of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import PATIENT_ROUNDS, PATIENT_S, Patience
from protocol.swarm.node_state import NodeState
from protocol.swarm.votes.obstacle import TOLD_AFTER_S, Obstacle, Stage, Watch, names_of, obstacle
from protocol.wire.ids import RESIGNED
from tests.parts import NOW, announce, base, endpoint, members, settings, state
from tests.wires import Wires

KEYS = members(9)
SID = b"s" * 32
STRONG = replace(base(3), anchor=3)
WEAK = replace(base(4), anchor=3)
MADE = "who made the last model"
PATIENT = "goes on without them after 5 more failed rounds"


class Place:
    """Where a node stands, and whom it hears. `electors`: how many of KEYS, or which."""

    def __init__(self, electors, held=STRONG, me=0, **changes):
        made = electors if isinstance(electors, Electorate) else of_keys(key.public for key in electors)
        is_first = isinstance(electors, Electorate)
        if is_first:
            changes = {"electorate": electors, **changes}
        self.settings = settings(KEYS[me], **changes)
        self.state: NodeState = state(held=held)
        self.state.line = Line() if is_first else Line(held.anchor, made)
        self.members = Members()
        self.patience = Patience(self.settings, self.state, self.members)
        self.now = NOW
        self.parts = (self.settings, self.state, self.members, self.patience, self.name)
        self.needed = ()
        """The peers of another version that are needed."""
        self.watch = Watch(*self.parts, lambda _: self.needed)

    def watched(self) -> Obstacle | None:
        self.watch.look(self.now)
        return self.watch.obstacle

    def name(self, key):
        found = self.members.get(key)
        return found.endpoint if found else key.hex()[:8]

    def hear(self, *keys, **changes):
        for key in keys:
            one = announce(key, **{"base": self.state.base, **changes})
            self.members.learn(one, 0, self.now, live=True)
        return self

    def fail(self, rounds, over_s=0.0):
        for _ in range(rounds):
            self.patience.failed(self.now)
        self.now += over_s
        return self

    def look(self) -> Obstacle | None:
        return obstacle(*self.parts, self.now)

    @property
    def text(self):
        found = self.look()
        assert found is not None
        return found.text


def short(*keys):
    return ", ".join(key.public.hex()[:8] for key in keys)


def test_where_a_quorum_is_here_nothing_is_in_the_way():
    assert Place(KEYS[:5]).hear(*KEYS[1:3]).look() is None


def test_the_smallest_number_that_makes_a_quorum_is_told_with_all_that_are_missing():
    found = Place(KEYS[:7]).hear(KEYS[1], KEYS[8]).look()
    assert found.text == f"waiting for 3 of: {short(*KEYS[2:7])}, {MADE}; {PATIENT}"
    assert found.nameless == f"waiting for 3 of 5 peers, {MADE}; {PATIENT}"
    assert (found.missing, found.can_be_gone) == (3, True)


def test_an_elector_that_is_known_is_named_by_its_endpoint_and_one_alone_without_a_number():
    place = Place(KEYS[:2], me=1).hear(KEYS[0], KEYS[7], KEYS[8])
    place.members.suspect(KEYS[0].public)
    found = place.look()
    assert found.text == f"waiting for {endpoint(KEYS[0])}, {MADE}; {PATIENT}"
    assert found.nameless == f"waiting for 1 peer, {MADE}; {PATIENT}"
    assert found.can_be_gone


def test_where_half_suffices_with_the_first_elector_both_numbers_are_told():
    text = Place(KEYS[:4], me=1).hear(KEYS[7], KEYS[8]).text
    first = short(KEYS[0])
    assert text.startswith(
        f"waiting for 1 of: {first}, {short(*KEYS[2:4])} ({first} among them, else 2), {MADE}"
    )


def test_who_would_be_too_many_to_read_is_counted():
    text = Place(KEYS[:9]).text
    assert text.startswith(f"waiting for 5 of: {short(*KEYS[1:7])} and 2 more, {MADE}")


def test_whose_vote_is_bound_does_not_count_and_is_marked_oneself_too():
    place = Place(KEYS[:5]).hear(KEYS[1]).hear(KEYS[2], open=(SID,))
    place.state.votes[SID] = OpenVote(SID, 3)
    assert place.text.startswith(
        f"waiting for 2 of: this node (whose vote is bound), {endpoint(KEYS[2])} (whose vote is bound), "
        f"{short(*KEYS[3:5])}, {MADE}"
    )


def test_who_resigned_on_this_anchor_is_not_waited_for():
    place = Place(KEYS[:5], me=4).hear(KEYS[1])
    assert place.look().missing == 1
    place.hear(KEYS[2], open=(RESIGNED,), following=True, base=replace(base(9), anchor=9))
    assert place.look().missing == 1
    place.hear(KEYS[3], open=(RESIGNED,), following=True)
    assert place.text.startswith(f"waiting for 1 of: {short(KEYS[0])}, {endpoint(KEYS[2])}, {MADE}")
    place.hear(KEYS[8], open=(RESIGNED,), following=True)
    place.hear(KEYS[0], open=(RESIGNED,), following=True)
    assert place.text.startswith(f"waiting for {endpoint(KEYS[2])}, {MADE}; a model takes at least 3 peers")
    assert place.hear(KEYS[7]).look() is None


def test_who_follows_says_nothing():
    place = Place(KEYS[:5])
    place.state.following = True
    assert place.look() is None


def test_who_does_not_know_the_electors_counts_who_is_here():
    unnamed = Place(KEYS[:5], held=base(), electorate=None)
    unnamed.state.line = Line()
    text = "waiting for 2 peers more; a model takes at least 3 peers, and 1 is here"
    found = unnamed.look()
    assert (found.text, found.nameless, found.missing, found.can_be_gone) == (text, text, 2, False)
    assert unnamed.hear(*KEYS[1:3]).look() is None


def test_a_quorum_that_is_no_group_waits_for_who_is_missing():
    named = of_names(endpoint(key) for key in KEYS[:3])
    place = Place(named, held=base(), weak=False).hear(KEYS[1])
    found = place.look()
    whose, then = "who were named for the first model", "a model takes at least 3 peers, and 2 are here"
    assert found.text == f"waiting for {endpoint(KEYS[2])}, {whose}; {then}"
    assert (found.missing, found.stage, found.can_be_gone) == (1, Stage.TOO_FEW, False)
    assert place.hear(KEYS[2]).look() is None


def test_where_all_that_are_missing_are_needed_no_number_is_told():
    named = of_names(endpoint(key) for key in KEYS[:3])
    place = Place(named, held=base())
    others = ", ".join(sorted(endpoint(key) for key in KEYS[1:3]))
    assert place.text.startswith(f"waiting for {others}, who were named for the first model; a model takes")


def test_a_quorum_of_the_last_ones_that_are_left_waits_for_anybody():
    place = Place(KEYS[:3]).hear(KEYS[1]).hear(KEYS[2], open=(RESIGNED,), following=True)
    assert place.text == "waiting for 1 peer more; a model takes at least 3 peers, and 2 are here"


def test_of_a_first_model_those_are_waited_for_that_were_named():
    named = of_names(endpoint(key) for key in KEYS[:4])
    place = Place(named, held=base(), me=3).hear(KEYS[8]).hear(KEYS[2], open=(SID,))
    names = [endpoint(key) for key in sorted(KEYS[:4], key=lambda key: endpoint(key).encode())]
    missing = [f"{one} (whose vote is bound)" if one == endpoint(KEYS[2]) else one for one in names]
    missing.remove(endpoint(KEYS[3]))
    text = place.text
    assert f": {', '.join(missing)}" in text
    assert f", who were named for the first model; {PATIENT}" in text


@pytest.mark.parametrize(("least", "words"), [(4, "2 peers more"), (3, "1 peer more")])
def test_where_any_so_many_make_the_first_model_nobody_is_named(least, words):
    found = Place(Electorate(least=least), held=base(), weak=False).hear(KEYS[1]).look()
    then = "nothing goes on without them (aggregation.weak = false)"
    assert found.text == found.nameless == f"waiting for {words}; {then}"
    assert not found.can_be_gone


def outlook(place):
    found = place.look()
    return found.stage, found.text.partition("; ")[2]


def test_what_comes_of_it():
    def five(**changes):
        return Place(KEYS[:7], **changes).hear(KEYS[1], KEYS[2])

    assert outlook(five()) == (Stage.PATIENT, PATIENT)
    assert outlook(five().fail(4)) == (Stage.PATIENT, "goes on without them after 1 more failed round")
    early = "goes on without them 30 s after the first failed round"
    assert outlook(five().fail(PATIENT_ROUNDS)) == (Stage.PATIENT, early)
    patient = five().fail(PATIENT_ROUNDS, PATIENT_S)
    others = "goes on without them as soon as the others here have waited as long"
    assert outlook(patient) == (Stage.WILLING, others)
    weak = five(held=WEAK)
    assert outlook(weak) == (Stage.WEAK, "until they are back, models are agreed without them")
    assert "who made the last model with a quorum" in weak.text
    never = "nothing goes on without them (aggregation.weak = false)"
    assert outlook(five(weak=False)) == (Stage.NEVER, never)
    assert five(weak=False).look().can_be_gone


def test_too_few_for_a_group_wait_for_more_whatever_is_said():
    alone, two = Place(KEYS[:5], held=WEAK, amnesty_s=60.0), Place(KEYS[:5], held=WEAK).hear(KEYS[8])
    assert outlook(alone) == (Stage.TOO_FEW, "a model takes at least 3 peers, and 1 is here")
    assert outlook(two) == (Stage.TOO_FEW, "a model takes at least 3 peers, and 2 are here")
    assert not alone.look().can_be_gone


def test_an_amnesty_is_told_before_it_comes():
    place = Place(KEYS[:7], amnesty_s=90.0).hear(KEYS[1], KEYS[2])
    assert place.text.endswith(
        f"; {PATIENT}; after 90 s without a quorum those that are silent count as gone for good "
        "(aggregation.amnesty_s)"
    )


def test_who_has_a_quorum_by_its_own_word_alone_says_so_once_a_round_failed():
    place = Place(KEYS[:5]).hear(KEYS[1])
    place.state.gone = frozenset(key.public for key in KEYS[2:4])
    assert place.look() is None
    found = place.fail(1).look()
    then = "a model is made without them once all nodes of a group count them so"
    assert found.text == f"{short(*KEYS[2:4])} count as gone for good here; {then}"
    assert found.nameless == f"2 peers count as gone for good here; {then}"
    assert found.missing == 0


def test_where_all_electors_count_as_gone_nobody_can_be_named():
    place = Place(KEYS[:2], me=8).hear(*KEYS[6:8])
    place.state.gone = frozenset(key.public for key in KEYS[:2])
    found = place.look()
    assert (found.missing, found.names, found.can_be_gone) == (0, (), False)
    assert found.text == found.nameless == f"waiting for somebody {MADE}; {PATIENT}"


def test_what_is_in_the_way_is_told_once_and_again_when_it_changes():
    place = Place(KEYS[:7]).hear(KEYS[1], KEYS[2])
    watch = place.watch
    assert watch.tell() == []
    watch.look(NOW)
    assert watch.tell() == [Notice(Note.WAITING, "", place.text)]
    place.fail(1)
    watch.look(NOW)
    assert watch.tell() == [], "one failed round more changes nothing"
    assert watch.obstacle.text == place.text
    place.fail(PATIENT_ROUNDS, PATIENT_S)
    watch.look(place.now)
    assert [notice.kind for notice in watch.tell()] == [Note.WAITING]
    watch.pause()
    assert (watch.obstacle, watch.tell()) == (None, [])


def test_models_without_a_quorum_are_told_once_and_so_is_the_first_one_with_a_quorum_after_them():
    place = Place(KEYS[:5]).hear(KEYS[1], KEYS[7])
    watch = place.watch
    assert watch.adopted(STRONG, NOW) == []
    place.state.base = WEAK
    (weak,) = watch.adopted(WEAK, NOW)
    assert weak == Notice(
        *(Note.WEAK, ""),
        f"the model of generation 4 was agreed without a quorum of the electors (missing: 1 of: "
        f"{short(*KEYS[2:5])}): it counts until they are back",
    )
    assert watch.adopted(WEAK, NOW) == watch.tell() == []
    place.state.base = again = replace(base(5), anchor=5)
    (back,) = watch.adopted(again, NOW)
    assert back == Notice(Note.QUORUM, "", "a quorum is there: the model of generation 5 counts for good")
    assert watch.adopted(again, NOW) == []


def test_a_model_without_a_quorum_is_told_of_where_the_electors_are_back_or_have_no_names():
    back = Place(KEYS[:3], held=WEAK).hear(*KEYS[1:3])
    (told,) = back.watch.adopted(WEAK, NOW)
    assert told.text.endswith("of the electors: it counts until they are back")
    assert back.watch.adopted(WEAK, NOW) == []
    nameless = Place(Electorate(least=4), held=replace(base(2), anchor=0))
    (told,) = nameless.watch.adopted(nameless.state.base, NOW)
    assert "missing" not in told.text


def test_electors_for_people_are_keys_or_endpoints():
    keys = [key.public for key in KEYS[:2]]
    assert names_of(keys, True, lambda key: key.hex()[:8]) == tuple(one.hex()[:8] for one in sorted(keys))
    assert names_of([b"b:2", b"a:1"], False, lambda key: "") == ("a:1", "b:2")


# -- in a session ------------------------------------------------------------------------------------


def five_named(count, **changes) -> Wires:
    """Makes `count` of five peers whose endpoints were named, and who have met."""
    named = of_names(endpoint(key) for key in KEYS[:5])
    return Wires(KEYS[:count], electorate=named, **changes).open()


def notices(wires):
    return [
        action for _, action in wires.told if isinstance(action, Notice) and action.kind is not Note.JOINED
    ]


def test_a_session_tells_its_owner_while_the_offer_waits_and_once_only():
    wires = five_named(2)
    assert all(node.obstacle is None for node in wires.nodes.values())
    wires.offer().tick(1.0)
    assert notices(wires) == []
    text = wires[KEYS[0]].obstacle.text
    assert "who were named for the first model; a model takes at least 3 peers, and 2 are here" in text
    wires.tick(TOLD_AFTER_S)
    assert [notice.kind for notice in notices(wires)] == [Note.WAITING] * 2
    wires.tick(120.0).tick(1.0)
    assert len(wires.ends(Failed)) == 2
    assert len(notices(wires)) == 2


def test_who_meets_the_others_or_has_ended_waits_for_nobody():
    wires = Wires(KEYS[:3], electorate=of_names(endpoint(key) for key in KEYS[:7]))
    node = wires[KEYS[0]]
    node.open(NOW)
    node.tick(NOW + 0.1)
    assert node.obstacle is None
    wires.open().tick(0.5)
    assert node.obstacle is not None
    node.close(wires.now)
    node.tick(wires.now + 0.1)
    assert node.obstacle is None


def test_a_session_without_electors_that_all_owners_call_gone_names_them():
    wires = five_named(3)
    for node in wires.nodes.values():
        node._state.gone = frozenset(endpoint(key).encode() for key in KEYS[3:5])
    wires.offer()
    ends = [action for _, action in wires.ends(Completed)]
    assert len(ends) == 3
    gone = tuple(sorted(endpoint(key) for key in KEYS[3:5]))
    assert all(end.without == gone for end in ends)
    assert [end.line.anchor for end in ends] == [1] * 3


def test_a_session_with_a_quorum_of_its_own_names_nobody():
    wires = five_named(5).offer()
    assert [action.without for _, action in wires.ends(Completed)] == [()] * 5


def test_a_weak_session_says_that_it_is_one():
    named = of_names(endpoint(key) for key in KEYS[:7])
    wires = Wires(KEYS[:3], electorate=named).open()
    for node in wires.nodes.values():
        node._patience.failed_rounds, node._patience._failed_since = PATIENT_ROUNDS, NOW - PATIENT_S
    wires.offer()
    assert [(end.without, end.line.anchor) for _, end in wires.ends(Completed)] == [((), 0)] * 3
    assert [notice.kind for notice in notices(wires)] == [Note.WEAK] * 3


def test_who_made_the_base_is_named_by_where_it_listened_also_when_it_was_not_heard_since():
    wires = five_named(5).offer()
    node = wires[KEYS[0]]
    node._members.forget(KEYS[4].public)
    node.addresses._grouped = {}
    assert node.addresses.of(KEYS[4].public) is None
    assert node.addresses.named(KEYS[4].public) == endpoint(KEYS[4])
    assert node.addresses.named(KEYS[8].public) == KEYS[8].public.hex()[:8]


def test_an_amnesty_is_told_as_the_owners_word_is():
    wires = five_named(3, amnesty_s=60.0, group_timeout_s=5.0)
    for node in wires.nodes.values():
        node._patience.gone(wires.now - 60.0)  # for so long there was no quorum
    wires.offer()
    gone = tuple(sorted(endpoint(key) for key in KEYS[3:5]))
    assert [end.without for _, end in wires.ends(Completed)] == [gone] * 3


def test_peers_of_another_version_are_named_first_unless_weak_groups_go_on_without_them():
    place = Place(KEYS[:5], held=STRONG).hear(*KEYS[1:2])
    place.needed = (endpoint(KEYS[2]), endpoint(KEYS[3]))
    found = place.watched()
    names = f"{endpoint(KEYS[2])}, {endpoint(KEYS[3])}"
    then = (
        "no group can form without them: upgrade all nodes of the swarm together; no round is spent meanwhile"
    )
    assert found.stage is Stage.VERSIONS
    assert found.text == f"waiting for {names}, of another version of the protocol; {then}"
    assert found.nameless == f"waiting for 2 of 2 peers, of another version of the protocol; {then}"
    assert not found.can_be_gone

    place = Place(KEYS[:7], held=STRONG).hear(*KEYS[1:3]).fail(PATIENT_ROUNDS, PATIENT_S)
    place.needed = (endpoint(KEYS[3]),)
    assert place.watched().stage is Stage.WILLING
