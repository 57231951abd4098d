"""A member that is refused by others who still agree tries again, and no longer than it may."""

import pytest

from node.estimators.learning import once_there
from node.system.errors import OtherSwarm


@pytest.mark.parametrize(("refusals", "tries", "ends"), [(0, 1, True), (2, 3, True), (3, 3, False)])
def test_refused_attempts_are_repeated_up_to_a_number(refusals, tries, ends):
    made, pauses = [], []

    def attempt() -> str:
        made.append(0)
        if len(made) <= refusals:
            raise OtherSwarm("they agree still")
        return "learned"

    if ends:
        assert once_there(attempt, tries, lambda: pauses.append(0)) == "learned"
    else:
        with pytest.raises(OtherSwarm):
            once_there(attempt, tries, lambda: pauses.append(0))
    assert len(pauses) == len(made) - 1
