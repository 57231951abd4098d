"""The relay's word: how it is made, written by people, and proved by both ends."""

from __future__ import annotations

import pytest

from protocol.errors import LocalProtocolError
from protocol.relay.word import INVITER, RELAY, WORD_BYTES, make_word, read_word, word_run


def test_a_word_has_all_its_random_bits():
    words = {make_word((1 << bit).to_bytes(WORD_BYTES, "big")) for bit in range(8 * WORD_BYTES)}
    assert len(words) == 8 * WORD_BYTES
    assert all(read_word(word) == word for word in words)


@pytest.mark.parametrize("count", [0, 4, 6])
def test_a_word_takes_five_bytes(count):
    with pytest.raises(LocalProtocolError):
        make_word(bytes(count))


@pytest.mark.parametrize("written", ["v8k2-qm4t", "V8K2-QM4T", "v8k2qm4t", "  v8k2-qm4t\n"])
def test_people_may_write_it_in_several_ways(written):
    assert read_word(written) == "v8k2-qm4t"


@pytest.mark.parametrize("written", ["", "v8k2-qm4", "v8k2-qm4tt", "v8k2-qm4u", "v8k2 qm4t", "v8k2-qm4é"])
def test_what_is_no_word(written):
    assert read_word(written) is None


ONE, TWO, OTHER = (bytes([number]) * 32 for number in range(3))
USUAL = ("v8k2-qm4t", bytes(16), ONE, TWO)


@pytest.mark.parametrize(
    ("theirs", "agree"),
    [
        (USUAL, True),
        (("v8k2-qm4u", *USUAL[1:]), False),
        (("v8k2-qm4t", bytes(15) + b"x", ONE, TWO), False),
        (("v8k2-qm4t", bytes(16), OTHER, TWO), False),
        (("v8k2-qm4t", bytes(16), ONE, OTHER), False),
    ],
)
def test_both_prove_one_word_between_the_same_keys_and_no_other(theirs, agree):
    relay = word_run(RELAY, *USUAL, bytes([3]) * 32)
    inviter = word_run(INVITER, *theirs, bytes([4]) * 32)
    at_relay, at_inviter = relay.finish(inviter.share), inviter.finish(relay.share)
    assert at_relay.is_proved(at_inviter.own) is at_inviter.is_proved(at_relay.own) is agree
    assert not at_inviter.is_proved(at_inviter.own)
