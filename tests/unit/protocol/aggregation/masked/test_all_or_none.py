"""Sums of whole numbers whose members share noise: a sum has every member in it, or there is none."""

import numpy as np
import pytest

from protocol.actions import Completed, Failed, Reason
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.encoding import WholeNumbers, encoding_of
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.thresholds import MaskedSettings, Tolerance, tolerance
from protocol.wire.masked_messages import Check, Masked, Release, Total
from tests.parts import endpoint, members, rand
from tests.wires import Wires

SIX = members(6)
LOST = min(SIX, key=lambda key: key.public)  # it adds up the first chunk


def swarm(layout: int, keys=SIX) -> Wires:
    masked = MaskedSettings(None, None, layout, honest=4)
    return Wires(keys, masked=masked, shares=ShareSettings("seed", None, 100.0)).open()


def words(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 2**32, 5, dtype=np.uint32)


def offer(wires: Wires) -> Wires:
    for number, key in enumerate(wires.keys):
        wires.carry_out(endpoint(key), wires[key].offer(words(number), rand(number), wires.now))
    return wires.quiet()


def dying(wires: Wires, withheld: type) -> Wires:
    """The lost member dies before it sends its first message of this kind."""
    dead = []

    def dropped(sender: str, _to: str, message: object) -> bool:
        if sender == endpoint(LOST) and isinstance(message, withheld):
            dead.append(message)
        return sender == endpoint(LOST) and bool(dead)

    wires.dropped = dropped
    return wires


def lose(wires: Wires, key=LOST) -> Wires:
    """All others learn that this member cannot be reached."""
    for other in wires.keys:
        if other is not key:
            wires.carry_out(endpoint(other), wires[other].unreachable(endpoint(key), "gone", wires.now))
    return wires.quiet()


@pytest.mark.parametrize("count", [3, 4, 6])
@pytest.mark.parametrize("layout", [0, ALL_TO_ALL_BYTES])
def test_words_pass_unchanged_and_their_sum_is_the_result(layout, count):
    ends = offer(swarm(layout, SIX[:count])).ends(Completed)

    assert len(ends) == count
    total = sum((words(number).astype(np.uint64) for number in range(count)), np.zeros(5, np.uint64))
    assert {tuple(end.result) for _, end in ends} == {tuple((total % 2**32).astype(np.uint32))}
    assert ends[0][1].result.dtype == np.uint32


@pytest.mark.parametrize(
    ("layout", "withheld"), [(0, Masked), (0, Check), (0, Total), (ALL_TO_ALL_BYTES, Masked)]
)
def test_who_is_lost_before_its_part_is_done_ends_the_sum_at_once_for_all(layout, withheld):
    """The group tolerates one silent member, and yet the sum would lack that member's noise."""
    wires = dying(swarm(layout), withheld)
    lose(offer(wires))

    assert not wires.ends(Completed)
    ends = [end for where, end in wires.ends(Failed) if where != endpoint(LOST)]
    assert [(end.reason, end.missing) for end in ends] == [(Reason.MASKS_TIMEOUT, (LOST.public,))] * 5


@pytest.mark.parametrize("layout", [0, ALL_TO_ALL_BYTES])
def test_who_is_lost_after_its_part_is_done_still_counts(layout):
    wires = lose(offer(dying(swarm(layout), Release)))

    ends = [end for where, end in wires.ends(Completed) if where != endpoint(LOST)]
    assert len(ends) == 5
    assert {end.contributors for end in ends} == {tuple(sorted(key.public for key in SIX))}


def test_a_locked_sum_survives_a_death_among_those_that_acknowledged_it():
    """All totals are here, and one dies before the acknowledgements arrive: the others propose them again."""
    wires = swarm(ALL_TO_ALL_BYTES)
    held = []
    wires.dropped = lambda _s, _t, message: type(message).__name__ == "Ack" and (held.append(message) or True)
    lose(offer(wires))
    wires.dropped = lambda sender, _t, _m: sender == endpoint(LOST)
    wires.tick(8.0).tick(2.0)

    ends = [end for where, end in wires.ends(Completed) if where != endpoint(LOST)]
    assert held
    assert len(ends) == 5
    assert {len(end.contributors) for end in ends} == {6}


@pytest.mark.parametrize("members_", [3, 4, 5, 9, 10, 14, 15, 64])
@pytest.mark.parametrize("honest", [1, 2, 4, 7, 13])
def test_noise_and_masks_rest_on_the_same_assumption(members_, honest):
    """Unless `dropouts` is set, a group of any size withstands as many colluders as its noise does."""
    if honest >= members_ or members_ < 4:
        return
    found = tolerance(members_, None, honest)

    assert found.least_included == members_
    assert 2 * found.dropouts <= honest
    assert found.colluders >= members_ - 1 - honest


def test_without_shared_noise_a_sum_may_lack_members_unless_it_is_to_be_all_or_none():
    assert tolerance(10, None, all_or_none=True) == Tolerance(10, 2, True)
    assert MaskedSettings(4.0, None, all_or_none=True).tolerance(10).least_included == 10
    assert Tolerance(10, 2).least_included == 8
    assert tolerance(10, None) == Tolerance(10, 2)
    assert MaskedSettings(4.0, None).tolerance(10).least_included == 8


def test_whole_numbers_are_copied_and_never_clipped():
    encoding = encoding_of(None, 5)
    vector = words(1)
    encoded, clipped = encoding.encode(vector, bytes(32))

    assert isinstance(encoding, WholeNumbers)
    assert (encoded.tolist(), clipped, encoding.clipped(vector)) == (vector.tolist(), 0, 0)
    assert not np.shares_memory(encoded, vector)
    assert encoding.encoded(vector, bytes(32), 0).tolist() == vector.tolist()
    encoding.decode(encoded, 3, result := np.zeros_like(encoded))
    assert (result.dtype, result.tolist()) == (encoding.result, vector.tolist())
    assert isinstance(encoding_of(1.0, 5), FixedPoint)
