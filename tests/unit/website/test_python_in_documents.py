"""The Python in documents that tests run compiles, and the notebook has the current format."""

from __future__ import annotations

import json

import pytest

from tests.e2e.documents import fences
from tests.e2e.processes import ROOT


def test_the_notebook_is_one_of_the_current_format():
    notebook = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    for cell in notebook["cells"]:
        assert set(cell) >= {"cell_type", "id", "metadata", "source"}
        assert ("outputs" in cell) == ("execution_count" in cell) == (cell["cell_type"] == "code")


@pytest.mark.parametrize("name", ["README.md", "docs/models.md"])
def test_every_block_of_python_in_a_document_that_is_run_compiles(name):
    blocks = fences((ROOT / name).read_text("utf-8"))
    scripts = [content for _, language, content in blocks if language == "python"]
    assert scripts
    for script in scripts:
        compile(script, name, "exec")
