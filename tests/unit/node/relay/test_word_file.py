"""The word of a relay: made once, for its owner alone, and shown in an address."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from node.relay.word_file import address_with_word, file_beside, own_word
from node.system.errors import ConfigError
from protocol.relay.word import read_word


def test_a_word_is_made_once_and_only_its_owner_reads_it(tmp_path: Path):
    path = file_beside(tmp_path / "tracker.key")
    word = own_word(path)
    assert read_word(word) == word
    assert own_word(path) == word
    assert path.name == "tracker.key.word"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    assert own_word(path) != word


@pytest.mark.parametrize("written", ["", "v8k2", "v8k2-qm4t-more", "v8k2-qm4u"])
def test_a_file_without_a_word_is_refused(tmp_path: Path, written):
    path = tmp_path / "word"
    path.write_text(f"{written}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="does not hold a relay's word"):
        own_word(path)


def test_a_word_that_others_can_read_is_refused(tmp_path: Path):
    path = tmp_path / "word"
    path.write_text("v8k2-qm4t\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        own_word(path)


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("relay.uni.example:443", "relay.uni.example#v8k2-qm4t"),
        ("relay.uni.example:8443", "relay.uni.example:8443#v8k2-qm4t"),
        ("[2001:db8::1]:443", "[2001:db8::1]#v8k2-qm4t"),
        ("[2001:db8::1]:8443", "[2001:db8::1]:8443#v8k2-qm4t"),
    ],
)
def test_the_address_for_inviters(endpoint, shown):
    assert address_with_word(endpoint, "v8k2-qm4t") == shown
