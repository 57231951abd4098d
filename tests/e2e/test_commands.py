"""Every command in the first pages and the tutorial works, or is listed here with the reason to skip it."""

from __future__ import annotations

import pytest

from tests.e2e.documents import Workshop, commands_of, task_in
from tests.e2e.processes import ROOT

DOCUMENTS = ["README.md", "docs/tutorial.md", "docs/tracker.md"]
# Swarms one after the other, and what reads a table of one's own.
LONG = {"README.md": pytest.mark.slow}
NOT_RUN = {
    ("README.md", "make demo"): "installs; what it starts then, `python -m scenarios run swarm`, is run",
    ("README.md", "make test"): "runs this very test",
    ("README.md", "python3 -m venv"): "installs",
    ("README.md", ".venv/bin/python -m pip"): "installs; .ci/run does the same in a clean environment",
    ("README.md", ".venv/bin/python -m pytest"): "runs this very test",
    ("README.md", "python -m node.predict"): "the tutorial's is run, in the folder of a node that it shows",
}


def reason_not_to_run(command):
    told = " ".join(command.words)
    reasons = [
        why for (page, start), why in NOT_RUN.items() if command.document == page and told.startswith(start)
    ]
    return reasons[0] if reasons else None


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, ())) for name in DOCUMENTS])
def test_every_command_of_a_page_works(nursery, tmp_path, name):
    commands = [command for command in commands_of(ROOT / name) if reason_not_to_run(command) is None]
    workshop = Workshop(tmp_path, nursery)
    makes_its_task = any(command.module == "node.init" for command in commands)
    workshop.furnish(None if makes_its_task else task_in(ROOT / "README.md"))

    workshop.run(commands)

    assert workshop.swarms > 0


def test_every_reason_belongs_to_a_command():
    told = [
        (command.document, " ".join(command.words))
        for name in DOCUMENTS
        for command in commands_of(ROOT / name)
    ]

    stale = [
        (page, start)
        for page, start in NOT_RUN
        if not any(page == there and words.startswith(start) for there, words in told)
    ]
    assert not stale


def test_commands_are_found_in_every_kind_of_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```\npython -m node --peers \\\n  a\n```\n```\nnot a command\n```\n"
        "```console\n$ make test # all\n```\n```python\npython = 1\n```\n```sh\nmake demo\nmake bench\n```\n"
    )

    assert [command.words for command in commands_of(page)] == [
        ("python", "-m", "node", "--peers", "a"),
        ("make", "test"),
        ("make", "demo"),
        ("make", "bench"),
    ]


def test_a_command_that_does_not_work_is_seen(nursery, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\npython -m node.key\n```\n")

    with pytest.raises(AssertionError, match=r"page.md:2: python -m node.key\n.*the following arguments"):
        Workshop(tmp_path, nursery).run(commands_of(page))
