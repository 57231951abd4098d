"""A private key is readable by its owner only, and is never overwritten."""

import os
import stat
from pathlib import Path

import pytest

from node.key.__main__ import main
from node.storage.key_file import held, new_seed, own_key, read_key, write_key
from node.storage.locks import InUse
from node.system.errors import ConfigError, UserError
from protocol.crypto.node_key import NodeKey


def test_a_new_key_is_readable_by_its_owner_alone_and_is_not_overwritten(tmp_path):
    path = tmp_path / "node.key"
    assert read_key(path) is None
    seed = new_seed()
    write_key(path, seed)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="cannot be written"):
        write_key(path, new_seed())
    assert read_key(path).public == NodeKey(seed).public


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    path = tmp_path / "node.key"
    write_key(path, new_seed())
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"can be read by others .mode {mode:04o}.; run: chmod 600"):
        read_key(path)


@pytest.mark.parametrize("written", ["", "zz" * 32, "ab" * 31, "ab" * 33])
def test_what_is_not_a_key_is_refused(tmp_path, written):
    path = tmp_path / "node.key"
    path.write_text(written)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="does not hold a key: 64 hex digits"):
        read_key(path)


def test_the_command_makes_a_key_once_and_prints_its_public_half(tmp_path, capsys, one_line):
    path = tmp_path / "a" / "node.key"
    assert main([str(path)]) == 0
    first = capsys.readouterr().out
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == first == read_key(path).public.hex() + "\n"
    assert one_line(main, [str(path / "node.key")]).startswith("error: ")


def test_one_at_a_time_holds_a_key_whatever_name_leads_to_it_and_who_reads_it_needs_no_lock(tmp_path):
    path, other = tmp_path / "node.key", tmp_path / "link"
    write_key(path, new_seed())
    other.symlink_to(path)
    with held(path, "node"):
        with pytest.raises(InUse) as caught, held(other, "node"):
            pass
        assert read_key(path).public == read_key(other).public
    process = f" (process {os.getpid()})" if Path("/proc/locks").exists() else ""
    assert str(caught.value) == (
        f"the key file {other} is in use by another node{process}: end that one, or give another --key"
    )
    path.chmod(0o400)
    with held(other, "node"), pytest.raises(InUse), held(path, "node"):
        pass
    with (
        pytest.raises(ConfigError, match="gone cannot be read: No such file or directory"),
        held(tmp_path / "gone", "node"),
    ):
        pass


def test_a_key_of_one_s_own_is_made_kept_and_for_one_at_a_time(tmp_path):
    path = tmp_path / "runs" / "tracker" / "tracker.key"
    with own_key(path) as first:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        told = f"{path} is in use by another tracker.*: end that one, or give another --key"
        with pytest.raises(UserError, match=told), own_key(path):
            pass
    with own_key(path) as again:
        assert again.public == first.public
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere" / "at" / "all")
    path = tmp_path / "gone" / "tracker.key"
    with pytest.raises(ConfigError, match=f"the folder {path.parent} cannot be made: "), own_key(path):
        pass
