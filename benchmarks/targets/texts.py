"""Free text at three sites: of which package a docstring is, read from its first sentences.

The texts are real ones that any machine with this project has. No text names its package.
"""

from __future__ import annotations

import ast
import csv
import importlib.util
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from benchmarks.spec import Scores
from node.data.partition import even
from node.data.text.vectors import LENGTH
from node.task.load import load_task
from scenarios.study.threads import one_thread
from scenarios.tables.learning import answers, rows_of
from scenarios.tables.proposal import propose_task

PACKAGES = ("aiohttp", "numpy", "pyarrow", "scipy", "sklearn", "torch")
EACH = 300
"""Texts of a package; a sixth of them is for the test, the others are the sites'."""
_SITES = 3
_SHORTEST, _LONGEST = 30, 300  # characters
_FILES = 400  # of a package: those that are first in the alphabet


def text_scores(encoder: str, number: int) -> Scores:
    """Return the balanced accuracies of split `number`: the swarm's, and of one model of all sites' rows.

    `encoder` is what --text says. Both models learn from the same features.
    """
    rng = np.random.default_rng([62, number])  # splits of 61 chose the length of vectors
    rows = [(text, name) for name in PACKAGES for text in rng.permutation(docstrings(name))[:EACH].tolist()]
    order = rng.permutation(len(rows))
    test, kept = order[: len(rows) // 6], order[len(rows) // 6 :]
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        parts = {f"site{site}": kept[part] for site, part in enumerate(even(len(kept), _SITES, rng))}
        for name, places in {**parts, "test": test}.items():
            with (Path(folder) / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([("text", "package"), *(rows[place] for place in places)])
        files = [Path(folder) / f"{name}.csv" for name in parts]
        out = propose_task(files[0], Path(folder) / "task.toml", "--privacy", "none", "--text", encoder)
        sites = rows_of(task := load_task(str(out), []), files, Path(folder) / "test.csv")
        swarm = answers(task, sites).argmax(1)
    x = np.concatenate([site.train_x.numpy() for site in sites])
    y = np.concatenate([site.train_y.numpy() for site in sites])
    model = LogisticRegression(C=1 / LENGTH**2, max_iter=2000).fit(x, y)  # as C = 1 is for unit vectors
    pooled = model.predict(sites[0].test_x.numpy())
    wanted = sites[0].test_y.numpy()
    found = {"swarm": swarm, "pooled": pooled}
    return {name: float(balanced_accuracy_score(wanted, labels)) for name, labels in found.items()}


@cache
def docstrings(package: str) -> list[str]:
    """Return the first paragraphs of a package's docstrings, each once, without the package's name."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ValueError(f"{package} is not installed")
    files = sorted(Path(found.origin).parent.rglob("*.py"))[:_FILES]
    texts = (re.sub(rf"(?i){package}", "it", text) for file in files for text in _first_paragraphs(file))
    return sorted({text for text in texts if _SHORTEST <= len(text) <= _LONGEST})


def _first_paragraphs(file: Path) -> Iterator[str]:
    for part in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(part) or ""
            yield " ".join(text.split("\n\n")[0].split())
