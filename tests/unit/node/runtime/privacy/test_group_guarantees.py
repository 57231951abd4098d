"""What a group's sums withstand, in words and figures."""

import pytest

from node.runtime.privacy.group_guarantees import check_length, liars_of, masked_settings, withstands
from node.system.errors import ConfigError
from node.task.load import load_task
from node.task.sections import AggregationSection
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.quorum.electorate import BY_SIZE
from protocol.vectors.ring import NARROW

MASKED, ADDITIVE = "aggregation.protocol=masked", "aggregation.protocol=additive"


def section(*overrides):
    return load_task("digits", overrides).aggregation


@pytest.mark.parametrize(
    ("members", "dropouts", "told"),
    [
        (4, None, "masked sums of 4: tolerates no dropouts; 3 of 4 peers would"),
        (5, None, "masked sums of 5: tolerates 1 dropout; 3 of 5 peers would"),
        (10, 0, "masked sums of 10: tolerates no dropouts; 9 of 10 peers would"),
        (10, 4, "masked sums of 10: tolerates 4 dropouts; 2 of 10 peers would"),
        (10, 31, "masked sums of 10: tolerates 4 dropouts; 2 of 10 peers would"),
        (64, None, "masked sums of 64: tolerates 12 dropouts; 40 of 64 peers would"),
    ],
)
def test_masked_groups(members, dropouts, told):
    chosen = () if dropouts is None else (f"aggregation.dropouts={dropouts}",)
    assert withstands(section(MASKED, *chosen), members).text.startswith(told)


@pytest.mark.parametrize("protocol", [MASKED, ADDITIVE])
def test_three_peers_share_additively_whatever_the_protocol(protocol):
    group = withstands(section(protocol), 3)
    assert group.text == "additive shares of 3: no dropout; all others would have to collude"
    assert (group.protocol, group.threshold, group.dropouts, group.colluders) == ("additive", 3, 0, 1)


def test_additive_groups_of_any_size():
    assert withstands(section(ADDITIVE), 10).text.startswith("additive shares of 10: no dropout; all others")
    told = withstands(section(ADDITIVE, "aggregation.shares=float"), 4).text
    assert told.endswith("; floats obfuscate, they guarantee nothing")


def test_ten_masked_peers_in_words_and_figures():
    assert withstands(section(MASKED), 10).text == (
        "masked sums of 10: tolerates 2 dropouts; 6 of 10 peers would have to collude; 32-bit words, t = 8, "
        "f = 2, m = 5"
    )
    facts = {"protocol": "masked", "members": 10, "threshold": 8, "dropouts": 2, "colluders": 5}
    assert withstands(section(MASKED), 10).facts == {**facts, "shares": "seed", "bits": 32}
    short = section(MASKED, "aggregation.bits=16")
    assert "; 16-bit words, " in withstands(short, 10).text
    assert (withstands(short, 10).bits, withstands(short, 3).bits) == (16, 32)
    assert short.without_slots.bits == 32


def test_the_session_is_told_the_same():
    assert masked_settings(section(ADDITIVE), 4.0) is None
    assert masked_settings(section(MASKED), 2.5) == MaskedSettings(2.5, None)
    assert masked_settings(section(MASKED, "aggregation.dropouts=1"), 4.0) == MaskedSettings(4.0, 1)
    assert masked_settings(section("aggregation.bits=16"), 4.0) == MaskedSettings(4.0, None, ring=NARROW)


@pytest.mark.parametrize(
    ("protocol", "kind", "most"),
    [(MASKED, "masked sums", 33_554_431), (ADDITIVE, "additive shares", 25_427_968)],
)
def test_a_model_that_is_too_long_for_its_group_is_refused(protocol, kind, most):
    with pytest.raises(ConfigError) as refused:
        check_length(section(protocol), 64, 40_000_000)
    assert str(refused.value) == (
        f"40000000 parameters are too many for {kind} of 64 peers; allowed: at most {most}; "
        "share fewer of them (train.parameters), or take fewer peers"
    )
    check_length(section(protocol), 64, most)
    check_length(section(protocol), 10, 40_000_000)
    check_length(section(protocol), 3, 40_000_000)


@pytest.mark.parametrize(
    ("protocol", "liars", "expected"),
    [("masked", None, BY_SIZE), ("additive", None, 0), ("masked", 0, 0), ("additive", 2, 2)],
)
def test_where_every_vote_is_needed_no_elector_may_lie_unless_the_task_says_so(protocol, liars, expected):
    assert liars_of(AggregationSection(protocol=protocol, liars=liars)) == expected
