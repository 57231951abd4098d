"""Every command in the first pages works, or is listed here with the reason to skip it."""

from __future__ import annotations

import pytest

from tests.e2e.documents import Workshop, commands_of, task_in
from tests.e2e.processes import ROOT

DOCUMENTS = ["README.md", "docs/open-ports.md", "docs/tracker.md"]
NOT_RUN = {
    ("README.md", "make demo"): "installs; what it starts then, test_murmuration.py runs",
    ("README.md", "make test"): "runs this very test",
    ("README.md", "python3 -m venv"): "installs",
    ("README.md", ".venv/bin/python -m pip"): "installs; .ci/run does the same in a clean environment",
    ("README.md", ".venv/bin/python -m scenarios"): "test_murmuration.py runs it by the installed command",
    ("README.md", ".venv/bin/python -m pytest"): "runs this very test",
    (
        "README.md",
        "python -m node.predict",
    ): "that of open-ports.md is run, in the folder of a node that it shows",
}


@pytest.mark.sampled("README.md", "docs/tracker.md")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_of_a_page_works(nursery, tmp_path, name):
    told = {command: " ".join(command.words) for command in commands_of(ROOT / name)}
    starts = [start for page, start in NOT_RUN if page == name]
    assert not [start for start in starts if not any(words.startswith(start) for words in told.values())]
    commands = [command for command, words in told.items() if not words.startswith(tuple(starts))]
    workshop = Workshop(tmp_path, nursery)
    makes_its_task = any(command.module == "node.init" for command in commands)
    workshop.furnish(None if makes_its_task else task_in(ROOT / "README.md"))

    workshop.run(commands)

    assert workshop.swarms > 0


def test_a_command_that_does_not_work_is_seen(nursery, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\npython -m node.key\n```\n")

    with pytest.raises(AssertionError, match=r"page.md:2: python -m node.key\n.*the following arguments"):
        Workshop(tmp_path, nursery).run(commands_of(page))
