"""`make test` runs a sample of the cases of the longest tests, as their mark `sampled` says.

A mark names the sample, `sampled("training")`, or what is not in it, `sampled(without=["training"])`. One
that names nothing leaves its whole test out. `.ci/run` runs all cases (`--full`), and so does a pytest to
which somebody names a test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest


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
