"""What is refused in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from node.system.errors import ConfigError


@contextmanager
def refused(said: str, error: type[Exception] = ConfigError) -> Iterator[None]:
    """Whatever is done within raises this error, whose one line contains `said`."""
    with pytest.raises(error) as raised:
        yield
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
