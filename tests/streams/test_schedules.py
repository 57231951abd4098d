"""Relayed streams under 250 seeds of bad weather, a soak 500; `python -m tests.streams 0 10000` runs more."""

from __future__ import annotations

import pytest

from tests.cases import soaks
from tests.streams.schedule import World

SEEDS, OF_SOAK, AT_ONCE = 250, 500, 50


@pytest.mark.sampled("0")
@pytest.mark.parametrize("first", [*range(0, SEEDS, AT_ONCE), *soaks(range(SEEDS, OF_SOAK, AT_ONCE))])
def test_each_stream_brings_the_same_bytes_or_is_closed(first):
    for seed in range(first, first + AT_ONCE):
        try:
            World(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
