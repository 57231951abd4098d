"""A room for cells: a data set is loaded once."""

from pathlib import Path

import pytest

from node.system.errors import ConfigError
from scenarios.engines.room import LocalRoom, load


def test_a_room_loads_a_data_set_once(tmp_path: Path) -> None:
    room = LocalRoom(tmp_path, 1, lambda number, figure: None)
    first = room.dataset("breast-cancer", 0)
    assert room.dataset("breast-cancer", 0) is first
    assert room.dataset("breast-cancer", 1) is not first
    assert (room.dataset("breast-cancer", 0).test_x == first.test_x).all()
    with pytest.raises(ConfigError, match="unknown"):
        load("mnits", tmp_path, 0)
