"""A member of a masked session lies: its signatures prove it, or it is missed; never a wrong model.

Every run checks the rules of tests.simulation.bare: all that complete have the same result, no honest member
is accused, and all end within their deadlines. Member 3 lies; if to one member alone, to member 0.
"""

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest

from protocol.actions import Completed, Failed, Reason
from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.masked.reduction import Reduction
from protocol.crypto import shamir
from protocol.wire.masked_messages import Join, JoinCertificate, Joined, Masked
from tests.cases import soak
from tests.simulation import lies
from tests.simulation.bare import Swarm
from tests.simulation.lies import LIAR
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Lie, Schedule, remembered, ring_of

SEEDS, OF_SOAK = range(8), range(8, 12)
BOTH = (EVERYBODY_ADDS, REDUCERS)


def swarms_of(
    lie: Lie, layout: int, members: int = 5, dropouts: int | None = None, seeds: range = SEEDS
) -> list[Swarm]:
    with remembered():
        return [
            Swarm(
                Schedule(seed, members, layout, dropouts, notices=seed % 2 == 0, ring=ring_of(seed)),
                {LIAR: lie},
            ).run()
            for seed in seeds
        ]


def truth(member, to, message):
    return (message,)


def liar_of(swarm: Swarm) -> bytes:
    return swarm.members[LIAR].participant.me


def accusers(swarm: Swarm) -> list[int]:
    """Returns the honest members that hold evidence."""
    return [member.number for member in swarm.honest if member.evidence]


def missed_by(swarm: Swarm) -> list[int]:
    """Returns the honest members that report that they waited for the liar."""
    return [
        member.number
        for member in swarm.honest
        if isinstance(member.end, Failed) and liar_of(swarm) in member.end.missing
    ]


def reasons(swarm: Swarm) -> set[str | None]:
    return {None if isinstance(m.end, Completed) else m.end.reason.value for m in swarm.honest if m.end}


CAUGHT_BY_ALL = {
    "both acks": (lies.both_acks, BOTH),
    "two checks": (lies.two_checks, BOTH[1:]),
    "wrong products": (lies.wrong_products, BOTH[1:]),
}
CAUGHT = {
    "wrong release": (lies.wrong_release, BOTH),
    "both releases": (lies.both_releases, BOTH),
    "both vectors": (lies.both_vectors, BOTH[:1]),
    "two joins": (lies.two_joins, BOTH),
    "two vectors": (lies.two_vectors, BOTH[:1]),
    "two totals": (lies.two_totals, BOTH[1:]),
    "wrong check and another vector": (lies.wrong_check_and_other_vector, BOTH[1:]),
    "wrong products to one": (lies.wrong_products_to_one, BOTH[1:]),
}
MISSED = {
    "a share that does not open": (lies.unsealed_share, BOTH),
    "a share that is not the one that was hashed": (lies.wrong_share, BOTH),
    "hashes that the head does not name": (lies.other_hashes, BOTH),
    "a mask key of small order": (lies.small_order, BOTH),
    "a vote about another list": (lies.other_list, BOTH),
    "silence": (lies.silent, BOTH),
    "a wrong check and no vector": (lies.wrong_check_and_no_vector, BOTH[1:]),
}
WITHOUT_EFFECT = {
    "another ack": (lies.other_ack, BOTH),
    "another ack for one": (lies.two_acks_apart, BOTH),
    "another release": (lies.other_release, BOTH),
    "disputes without a reason": (lies.disputes, BOTH),
    "a release before any ack": (lies.release_before_acks, BOTH),
    "proposals for views that others lead": (lies.proposes_in_every_view, BOTH),
    "replays": (lies.replays, BOTH),
}


def cases(table: dict[str, tuple[Lie, tuple[int, ...]]]) -> pytest.MarkDecorator:
    """All lies of a table: a test has a few swarms of each, a soak more."""
    found = list[Any]()
    for name, (lie, layouts) in table.items():
        for layout in layouts:
            case = f"{name}, {'everybody adds up' if layout else 'reducers'}"
            found.append(pytest.param(lie, layout, SEEDS, id=case))
            found.append(soak(lie, layout, OF_SOAK, name=f"{case}, more seeds"))
    return pytest.mark.parametrize(("lie", "layout", "seeds"), found)


@cases(CAUGHT_BY_ALL)
def test_evidence_reaches_every_honest_member(lie, layout, seeds):
    for swarm in swarms_of(lie, layout, seeds=seeds):
        assert accusers(swarm) == [0, 1, 2, 4] or swarm.completed, f"{swarm.schedule}: {reasons(swarm)}"
        assert accusers(swarm), f"{swarm.schedule}: {reasons(swarm)}"


@cases(CAUGHT)
def test_evidence_reaches_some_honest_member_unless_all_completed_before(lie, layout, seeds):
    swarms = swarms_of(lie, layout, seeds=seeds)
    for swarm in swarms:
        assert accusers(swarm) or len(swarm.completed) == 4, f"{swarm.schedule}: {reasons(swarm)}"
    assert sum(bool(accusers(swarm)) for swarm in swarms) > len(seeds) / 2


@cases(MISSED)
def test_where_nothing_can_be_proved_the_liar_is_missed(lie, layout, seeds):
    for swarm in swarms_of(lie, layout, seeds=seeds):
        assert missed_by(swarm) or swarm.completed, f"{swarm.schedule}: {reasons(swarm)}"
        assert not accusers(swarm) or lie is lies.wrong_check_and_no_vector


@cases(WITHOUT_EFFECT)
def test_the_others_complete_all_the_same(lie, layout, seeds):
    for swarm in swarms_of(lie, layout, seeds=seeds):
        assert len(swarm.completed) == 4, f"{swarm.schedule}: {reasons(swarm)}"


@pytest.mark.parametrize("layout", BOTH)
def test_a_vector_that_is_not_what_its_head_names_does_not_count(layout):
    """The others go on without it, or end."""
    for swarm in swarms_of(lies.wrong_hash, layout):
        assert not accusers(swarm)
        for member in swarm.completed:
            assert liar_of(swarm) not in member.end.contributors


# -- totals -------------------------------------------------------------------------------------------------

FALSE_TOTALS = {
    "plus 2^31": lies.plus(1 << 31, 0),
    "plus 1": lies.plus(1, 0),
    "random words": lies.random_words,
    "another carry": lies.other_carry,
}
Adding = Callable[[Reduction, list[Masked], int], bytes]


def nobody_completes_and_somebody_proves_it(swarms: Iterable[Swarm]) -> None:
    for swarm in swarms:
        assert not swarm.completed
        assert accusers(swarm), f"{swarm.schedule}: {reasons(swarm)}"


def a_liar_that_adds_up(adding: Adding, monkeypatch: pytest.MonkeyPatch) -> list[Swarm]:
    """A liar that believes its own total: it checks and acknowledges it."""
    honest = Reduction._sum
    monkeypatch.setattr(
        Reduction,
        "_sum",
        lambda reduction, parts, index: (adding if reduction._participant.number == LIAR else honest)(
            reduction, parts, index
        ),
    )
    swarms = swarms_of(truth, REDUCERS)  # with short words there are too few chunks for the liar to have one
    return [swarm for swarm in swarms if swarm.schedule.scheme.layout.chunks > LIAR]


@pytest.mark.parametrize("change", FALSE_TOTALS.values(), ids=FALSE_TOTALS.keys())
def test_a_false_total_is_proved_to_all(change: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch):
    honest = Reduction._sum

    def changed(reduction: Reduction, parts: list[Masked], index: int) -> bytes:
        layout = reduction._layout
        return change(honest(reduction, parts, index), layout, index)

    nobody_completes_and_somebody_proves_it(a_liar_that_adds_up(changed, monkeypatch))


def test_a_total_over_fewer_than_it_names_is_proved(monkeypatch: pytest.MonkeyPatch):
    honest = Reduction._sum

    def of_fewer(reduction: Reduction, parts: list[Masked], index: int) -> bytes:
        return honest(reduction, parts[:-1], index)

    nobody_completes_and_somebody_proves_it(a_liar_that_adds_up(of_fewer, monkeypatch))


# -- dealers ------------------------------------------------------------------------------------------------


def beginning_with(module: ModuleType, name: str, lying: Callable[..., Callable[..., Any]]):
    """Returns a machine of which member 3 starts with a lying function in place of an honest one."""

    class Beginner(DoubleMasked):
        def start(self, vector, rand, now):
            with pytest.MonkeyPatch.context() as patch:
                if self.participant.number == LIAR:
                    patch.setattr(module, name, lying(getattr(module, name)))
                return super().start(vector, rand, now)

    return Beginner


def points_of_nothing(honest):
    """Deals points of no polynomial; their hashes are computed as usual."""
    return lambda secret, threshold, members, rand: tuple(range(7, 7 + members**2, members))


def key_of_another_secret(honest):
    """Announces the mask key of another secret than the one that it deals."""
    return lambda secret: honest(secret ^ 1 << 200)


WrongDealer = beginning_with(shamir, "split", points_of_nothing)
WrongMaskKey = beginning_with(mask_keys, "public_key", key_of_another_secret)


def swarms_with(kind: type[DoubleMasked], layout: int, lie: Lie = truth) -> list[Swarm]:
    with remembered():
        return [Swarm(Schedule(seed, 5, layout), {LIAR: lie}, kind=kind).run() for seed in SEEDS]


@pytest.mark.parametrize("layout", BOTH)
def test_shares_that_open_nothing_are_proved_against_their_dealer(layout):
    nobody_completes_and_somebody_proves_it(swarms_with(WrongDealer, layout))


@pytest.mark.parametrize("layout", BOTH)
def test_masks_of_another_key_are_caught_by_the_count_and_nobody_can_be_named(layout):
    for swarm in swarms_with(WrongMaskKey, layout):
        assert not swarm.completed
        assert reasons(swarm) <= {Reason.WRONG_COUNT.value, Reason.MASKS_TIMEOUT.value}
        assert Reason.WRONG_COUNT.value in reasons(swarm)
        assert not accusers(swarm)


def quiet_after_its_vector(member, to, message):
    return (message,) if isinstance(message, Join | Joined | JoinCertificate) else ()


@pytest.mark.parametrize("layout", BOTH)
def test_a_wrong_mask_key_is_proved_when_it_has_to_be_opened(layout):
    """Its dealer drops out: the shares of its key open something else."""
    nobody_completes_and_somebody_proves_it(swarms_with(WrongMaskKey, layout, quiet_after_its_vector))


# -- views --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", BOTH)
@pytest.mark.parametrize("proof", ["none", "fits", "other"])
@pytest.mark.parametrize("included", [0, 0b11111, 0b11110, 0b11111 | 1 << 63])
@pytest.mark.parametrize(
    ("view", "seeds"), [(1, OF_SOAK), (2, range(4)), soak(1, range(6, 8)), soak(2, range(4, 6))]
)
def test_a_forged_lock_accuses_nobody_honest_and_with_reducers_holds_nobody_up(
    view, seeds, included, proof, layout
):
    """If every member adds up all chunks, locks have no proof: a forged one may cost the round."""
    for swarm in swarms_of(lies.forged_lock(included, view, proof), layout, seeds=seeds):
        assert len(swarm.completed) == 4 or layout == EVERYBODY_ADDS, f"{swarm.schedule}: {reasons(swarm)}"
