"""Nodes of which only the parts exist."""

import pytest

from tests.unit.node.alone import Alone


@pytest.fixture
def alone(tmp_path):
    made = []

    def make(*arguments):
        made.append(Alone(tmp_path, *arguments))
        return made[-1]

    yield make
    for one in made:
        one.state.close()
