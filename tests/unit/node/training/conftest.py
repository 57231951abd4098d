import threading

import pytest

from node.data.dataset import load_dataset
from node.task.load import load_task


@pytest.fixture(scope="session")
def dataset():
    """A twentieth of the digits, which no test changes."""
    return load_dataset(load_task("digits", []), None, (0, 20))


@pytest.fixture
def stop_at_third():
    """An event that is set when somebody asks for the third time."""

    class StopAtThird(threading.Event):
        asked = 0

        def is_set(self):
            self.asked += 1
            return self.asked > 2

    return StopAtThird()
