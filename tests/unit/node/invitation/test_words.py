"""What people read about a task and about members."""

from __future__ import annotations

from node.invitation.words import member_lines, task_line
from node.task.load import load_task
from tests.invitations import INVITER, MEMBERS


def test_a_task_is_told_in_a_line():
    assert task_line(load_task("digits", [])) == (
        "Task digits: learns from tables of numbers; no noise: sums hide single updates, and nothing bounds "
        "what the model remembers"
    )
    private = load_task("digits", ["privacy.mechanism=dp-sgd", "privacy.epsilon=3"])
    assert task_line(private).endswith("; dp-sgd, epsilon 3 for each of your rows")


def test_members_are_told_by_name_with_the_words_of_their_keys():
    lines = member_lines(reversed(MEMBERS), {INVITER.public: "this machine"})
    assert [line.split("   ")[0].strip() for line in lines] == ["Ward A", "Ward B", "Ward C"]
    assert lines[0].endswith("this machine")
    assert len(lines[1].split()) == 2 + 5
