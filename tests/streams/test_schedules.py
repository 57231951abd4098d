"""Relayed streams under 250 seeds of bad weather; `python -m tests.streams 0 10000` runs more."""

from __future__ import annotations

import pytest

from tests.streams.schedule import World

SEEDS, AT_ONCE = 250, 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_each_stream_brings_the_same_bytes_or_is_closed(first):
    for seed in range(first, first + AT_ONCE):
        try:
            World(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
