"""The file of a swarm: what is written is read, and what is changed is refused."""

from __future__ import annotations

import stat

import pytest

from node.storage.swarm_file import SWARM, Own, Swarm, read_swarm, swarm_text, write_swarm
from node.system.errors import ConfigError
from protocol.crypto.node_key import NodeKey
from protocol.invitation.roster import Member, vouch_for
from tests.invitations import INVITER, JOINER, OTHER, ROSTER

OWN = Own('/data/"odd" name.csv', "decimal=comma", "own-person", encoder="/models/notes")


def test_what_is_written_is_read_and_is_for_its_owner_alone(tmp_path):
    write_swarm(tmp_path / "runs" / "ward", Swarm(ROSTER, OWN))
    path = tmp_path / "runs" / "ward" / SWARM
    assert read_swarm(path.parent) == Swarm(ROSTER, OWN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_who_is_removed_is_not_learned_with_until_taken_back(tmp_path):
    swarm = Swarm(ROSTER, OWN).without(OTHER.public)
    write_swarm(tmp_path, swarm)
    swarm = read_swarm(tmp_path)
    assert {*swarm.learned_with} == {INVITER.public, JOINER.public}
    assert swarm.roster == ROSTER
    assert {*swarm.again_with(OTHER.public).learned_with} == {INVITER.public, JOINER.public, OTHER.public}


def test_later_members_are_kept_with_the_word_by_which_they_came(tmp_path):
    late = NodeKey(bytes([5]) * 32)
    swarm = Swarm(ROSTER, OWN).with_word(vouch_for(JOINER, ROSTER, Member("ward c", late.public)))
    write_swarm(tmp_path, swarm)
    assert read_swarm(tmp_path) == swarm
    assert {*swarm.learned_with} == {INVITER.public, JOINER.public, late.public}
    assert swarm.removed == {OTHER.public}
    (tmp_path / SWARM).write_text(swarm_text(swarm).replace('name = "ward c"', 'name = "ward d"'))
    with pytest.raises(ConfigError, match=r"swarm\.toml is damaged"):
        read_swarm(tmp_path)


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        ('name = "Ward B"', 'name = "Ward X"'),
        (f'key = "{OTHER.public.hex()}"', f'key = "{"0" * 64}"'),
        (f'key = "{OTHER.public.hex()}"', 'key = "no key"'),
        ('endpoint = "relay.example:443"', 'endpoint = "evil.example:443"'),
        ('endpoint = "relay.example:443"', 'endpoint = "no endpoint"'),
        (f'signature = "{ROSTER.signature.hex()}"', 'signature = ""'),
        (f'nonce = "{ROSTER.nonce.hex()}"', "nonce = 7"),
        ("\n[own]", "\n[other]"),
        ("[[members]]", "[[members"),
    ],
)
def test_a_file_that_was_changed_is_refused_in_one_line(tmp_path, what, instead):
    text = swarm_text(Swarm(ROSTER, OWN))
    assert what in text
    (tmp_path / SWARM).write_text(text.replace(what, instead, 1))
    with pytest.raises(ConfigError, match=r"swarm\.toml is damaged"):
        read_swarm(tmp_path)


def test_a_folder_without_the_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="give the folder of a swarm that you joined"):
        read_swarm(tmp_path)


def test_a_huge_file_is_refused(tmp_path):
    (tmp_path / SWARM).write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ConfigError, match="more than 1048576 bytes"):
        read_swarm(tmp_path)
