"""However the releases of honest members differ, no member's secrets are both open, and no vector is alone.

Exhaustive up to 8 members (except 8 with 3 dropouts), with the product's own t and m. The bound m is tight:
with one more colluder, both happen.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from protocol.aggregation.masked.thresholds import Tolerance
from tests.simulation.masked_observer import MaskedObserver, MaskedSession
from tests.simulation.vote_model import Findings, Votes, exhaust, groups, judge, sample, votes_of

MOST_PATTERNS = 3_000_000
SAMPLES = 600_000

EACH_GROUP = [tolerance for members in range(4, 9) for tolerance in groups(members)]
EXHAUSTED = [group for group in EACH_GROUP if votes_of(group).patterns <= MOST_PATTERNS]
SAMPLED = [group for group in EACH_GROUP if group not in EXHAUSTED]
WITHSTOOD = [group for group in EACH_GROUP if group.dropouts > 0]


def _name(group: Tolerance) -> str:
    return f"n{group.members}-f{group.dropouts}"


@pytest.mark.parametrize("group", EXHAUSTED, ids=_name)
def test_never_both_secrets_and_never_one_alone(group):
    found = exhaust(votes_of(group))
    assert found == Findings(votes_of(group).patterns, 0, 0, found.least_together)
    assert found.least_together >= 2


@pytest.mark.parametrize("group", SAMPLED, ids=_name)
def test_never_both_secrets_and_never_one_alone_in_samples(group):
    found = sample(votes_of(group), SAMPLES, np.random.default_rng(41))
    assert found == Findings(SAMPLES, 0, 0, found.least_together)
    assert found.least_together >= 2


@pytest.mark.parametrize("group", WITHSTOOD, ids=_name)
def test_one_colluder_more_and_both_happen(group):
    votes = votes_of(group, more_colluders=1)
    few = votes.patterns <= MOST_PATTERNS
    found = exhaust(votes) if few else sample(votes, SAMPLES, np.random.default_rng(42))
    assert found.both > 0
    assert found.alone > 0


@pytest.mark.parametrize("group", EXHAUSTED, ids=_name)
def test_a_lower_threshold_opens_both(group):
    """t - 1 shares for a secret, with all the colluders that t allows."""
    votes = votes_of(group)
    lower = Votes(votes.members, votes.threshold - 1, votes.colluders)
    assert lower.threshold <= lower.colluders + 1 or exhaust(lower).both > 0


def test_every_row_is_covered():
    assert [(g.members, g.dropouts) for g in SAMPLED] == [(8, 3)]
    rows = {(g.members, g.dropouts): (g.threshold, g.colluders) for g in EACH_GROUP}
    assert rows[4, 1] == (3, 1)
    assert rows[5, 1] == (4, 2)
    assert rows[6, 2] == (4, 1)
    assert rows[7, 2] == (5, 2)
    assert {members for members, _ in rows} == {4, 5, 6, 7, 8}


def _plainly(votes: Votes) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
    """Counts by definition, in every order, the patterns that open both secrets, and that leave one alone."""
    both, alone = set(), set()
    for pattern in product(range(len(votes.choices)), repeat=votes.honest):
        kinds = [_opened(votes, pattern, member) for member in range(votes.honest)]
        if "both" in kinds:
            both.add(pattern)
        elif "neither" not in kinds and kinds.count("self") == 1:
            alone.add(pattern)
    return both, alone


def _opened(votes: Votes, pattern: tuple[int, ...], member: int) -> str:
    said = [int(votes.choices[choice][member]) for choice in pattern]
    has_self = said.count(1) + votes.colluders >= votes.threshold
    has_key = said.count(-1) + votes.colluders >= votes.threshold
    return {(True, True): "both", (True, False): "self", (False, True): "key"}.get(
        (has_self, has_key), "neither"
    )


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("group", [Tolerance(4, 1), Tolerance(5, 1), Tolerance(6, 1)], ids=_name)
def test_counting_each_order_once_misses_nothing(group, more):
    votes = votes_of(group, more)
    both, alone = _plainly(votes)
    found = exhaust(votes)
    assert found.both == len({tuple(sorted(pattern)) for pattern in both})
    assert found.alone == len({tuple(sorted(pattern)) for pattern in alone})


def _session(votes: Votes, pattern: tuple[int, ...]) -> MaskedSession:
    """Makes the session of a pattern, as an observer with all shares sees it; honest members first."""
    kinds = [_opened(votes, pattern, member) for member in range(votes.honest)]
    return MaskedSession(
        sid=bytes(32),
        offers=tuple((("unit", member, 0),) for member in range(votes.members)),
        sent=2**votes.members - 1,
        self_masks=sum(1 << member for member, kind in enumerate(kinds) if kind in ("self", "both")),
        mask_keys=sum(1 << member for member, kind in enumerate(kinds) if kind in ("key", "both")),
        included=0,
        colluders=sum(1 << member for member in range(votes.honest, votes.members)),
    )


@pytest.mark.parametrize(
    ("group", "more"),
    [(Tolerance(4, 1), 0), (Tolerance(4, 1), 1), (Tolerance(5, 1), 0), (Tolerance(5, 1), 1)],
)
def test_linear_algebra_says_the_same(group, more):
    """The patterns that the model counts as failures are those that determine one member's vector."""
    votes = votes_of(group, more)
    for pattern in product(range(len(votes.choices)), repeat=votes.honest):
        session = _session(votes, pattern)
        known = any(MaskedObserver([session]).knows(session, 1 << member) for member in range(votes.honest))
        found = judge(votes, np.array([pattern]))
        assert known == bool(found.both or found.alone), pattern
