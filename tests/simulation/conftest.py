"""What all simulations share."""

from collections.abc import Iterator

import pytest

from tests.signatures import known_if_made_here


@pytest.fixture(autouse=True)
def own_signatures_are_known() -> Iterator[None]:
    with known_if_made_here():
        yield
