"""Which cases of a test a run has.

| command | cases |
|---|---|
| `make test` | those in the sample of their test, and all cases of a test without one |
| `.ci/run`, `pytest --full`, a pytest to which somebody names a test | all but those of a soak |
| `make soak` | those of a soak alone |

A mark above a test names its sample, `@pytest.mark.sampled("training")`, or what is not in it,
`@pytest.mark.sampled(without=["training"])`. One that names nothing leaves its whole test out. A case of a
soak stands in the list of parameters, among those of every run: `soak(7)` in place of `7`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest


def soak(*values: object, name: str | None = None) -> Any:
    """Returns a case of a soak, with a value for each of its parameters."""
    return pytest.param(*values, marks=pytest.mark.soak, id=name)


def soaks(cases: Iterable[object]) -> list[Any]:
    """Returns a case of a soak for each value of a single parameter."""
    return [soak(case) for case in cases]


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Returns the cases that are not in the sample of their test; those of a soak are left to its own mark.

    Raises UsageError where a mark names a case that its test does not have.
    """
    tests = defaultdict[str, dict[str, pytest.Item]](dict)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("soak"):
            test, _, case = item.nodeid.partition("[")
            tests[test][case.removesuffix("]")] = item
    return [item for test, cases in tests.items() for item in _left_out_of(test, cases)]


def _left_out_of(test: str, cases: dict[str, pytest.Item]) -> list[pytest.Item]:
    mark = next(iter(cases.values())).get_closest_marker("sampled")
    assert mark is not None
    named, without = set(mark.args), set(mark.kwargs.get("without", ()))
    if unknown := sorted((named | without) - cases.keys()):
        raise pytest.UsageError(f"{test} has no case {unknown[0]!r}; it has {', '.join(map(repr, cases))}")
    sample = cases.keys() - without if without else named
    return [item for case, item in cases.items() if case not in sample]
