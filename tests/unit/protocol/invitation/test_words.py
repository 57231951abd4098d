"""Codes and the words of keys: what people read, say and type."""

from __future__ import annotations

import hashlib

import pytest

from protocol.invitation.word_list import WORDS
from protocol.invitation.words import Code, key_words, new_secret, read_code, read_relay

CODE = Code("relay.uni.example:443", "48213", "otter-width-salt")


def test_the_list_is_the_one_that_keys_words_are_made_of():
    assert len(WORDS) == len({*WORDS}) == 1296 == 6**4
    assert all(word.isascii() and word.isalpha() and 3 <= len(word) <= 5 for word in WORDS)
    digest = hashlib.sha256(" ".join(WORDS).encode()).hexdigest()
    assert digest == "0e1d2b9e6ced3aa99283397809c4848e6e8bf5083e54d9a8c9f01090de788cab"


@pytest.mark.parametrize(
    ("relay", "written"),
    [
        ("relay.uni.example:443", "relay.uni.example/48213-otter-width-salt"),
        ("127.0.0.1:9000", "127.0.0.1:9000/48213-otter-width-salt"),
        ("[::1]:443", "[::1]/48213-otter-width-salt"),
    ],
)
def test_a_code_is_read_as_it_is_written(relay, written):
    code = Code(relay, CODE.room, CODE.secret)
    assert str(code) == written
    assert read_code(f" {written.upper()}\n") == code


@pytest.mark.parametrize(
    "written",
    [
        *("", "relay.example", "48213-otter-width-salt", "relay.example/4821-otter-width-salt"),
        *("relay.example/48213-otter-width", "relay.example/48213-otter-width-salt-salt"),
        "relay.example/48213 otter width salt",
    ],
)
def test_another_form_is_refused_with_the_right_one(written):
    with pytest.raises(ValueError, match="is no code; allowed: HOST/DDDDD-word-word-word"):
        read_code(written)


@pytest.mark.parametrize(("word", "nearest"), [("forst", "frost"), ("otterr", "otter"), ("slat", "salt")])
def test_for_an_unknown_word_the_nearest_is_proposed(word, nearest):
    with pytest.raises(ValueError, match=f'the code has no word "{word}"; did you mean ({nearest})\\?'):
        read_code(f"relay.example/48213-otter-width-{word}")


def test_for_a_word_like_no_other_the_form_is_named():
    with pytest.raises(ValueError, match='no word "qqqq"; allowed: HOST'):
        read_code("relay.example/48213-otter-width-qqqq")


@pytest.mark.parametrize("host", ["", "a b", "0.0.0.0", "host:99999", "http://relay.example"])
def test_a_code_without_a_relay_is_refused(host):
    with pytest.raises(ValueError, match="is no address of a relay; allowed: HOST or HOST:PORT"):
        read_code(f"{host}/48213-otter-width-salt")


def test_a_relay_needs_no_port():
    assert read_relay("Relay.Example") == "relay.example:443"
    assert read_relay("relay.example:8443") == "relay.example:8443"


def test_secrets_are_words_of_the_list_and_depend_on_all_random_bytes():
    assert new_secret(bytes(16)) == "-".join([WORDS[0]] * 3)
    assert new_secret((1).to_bytes(16, "big")) == f"{WORDS[1]}-{WORDS[0]}-{WORDS[0]}"
    assert new_secret((5 + 1296 * 7 + 1296**2 * 11).to_bytes(16, "big")) == "-".join(
        WORDS[number] for number in (5, 7, 11)
    )


def test_a_keys_words_are_five_digits_of_its_digest():
    number = int.from_bytes(hashlib.sha256(b"k" * 32).digest(), "big")
    assert key_words(b"k" * 32).split() == [WORDS[number // 1296**place % 1296] for place in range(5)]
    assert key_words(b"k" * 32) != key_words(b"l" * 32)
