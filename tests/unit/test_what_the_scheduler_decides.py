"""Tests with real processes compare nothing that only the scheduler decides.

Whether a node was in time for a round depends on the load of the machine. So a test compares who took part
in a round, the lines of a history in their order, or seconds only if the members of its
swarm wait for each other: it comes from `make_waiting_swarm`, or has `--wait forever` and
`aggregation.min_participants` of its own.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

E2E = Path(__file__).parents[1] / "e2e"
WAITING = "make_waiting_swarm"


def compared(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all that the comparisons of an assertion contain."""
    if isinstance(node, ast.Assert):
        for comparison in ast.walk(node.test):
            if isinstance(comparison, ast.Compare):
                yield from ast.walk(comparison)


def claim(node: ast.AST) -> str | None:
    """Names what the scheduler decides, if the node is about it."""
    match node:
        case ast.Assert() if any(
            isinstance(part, ast.Subscript) and ast.unparse(part.slice) == "'participants'"
            for part in compared(node)
        ):
            return "how many took part"
        case ast.Call(
            func=ast.Name("len"),
            args=[ast.Call(func=ast.Name("history")) | ast.Subscript(slice=ast.Constant("history"))],
        ):
            return "how many lines a history has"
        case ast.ListComp(elt=ast.Subscript(slice=ast.Constant("round"))):
            return "the order of rounds"
        case ast.ListComp(
            elt=ast.Subscript() | ast.Tuple(),
            generators=[ast.comprehension(iter=ast.Call(func=ast.Name("history")))],
        ):
            return "the order of a history's lines"
        case ast.BinOp(left=ast.Call(func=ast.Attribute(attr="monotonic" | "perf_counter")), op=ast.Sub()):
            return "how long something took"
    return None


def waits(definition: ast.AST) -> bool:
    """Tells whether the swarms of a test wait for all their members, by the fixture or by their options."""
    nodes = list(ast.walk(definition))
    words = " ".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))
    by_options = "forever" in words and "aggregation.min_participants=" in words
    return by_options or any(isinstance(node, ast.arg) and node.arg == WAITING for node in nodes)


def claims(text: str) -> Iterator[tuple[int, str]]:
    """Yields lines and claims of a file. Its helpers may claim what they like if all its tests wait."""
    definitions = ast.parse(text).body
    tests = [one for one in definitions if getattr(one, "name", "").startswith("test_")]
    if tests and all(waits(test) for test in tests):
        return
    for definition in definitions:
        if not waits(definition):
            for node in ast.walk(definition):
                if told := claim(node):
                    yield node.lineno, told


ASSERTING = [path for path in sorted(E2E.glob("*.py")) if "assert " in path.read_text("utf-8")]


@pytest.mark.parametrize("path", ASSERTING, ids=lambda path: path.name)
def test_no_test_with_real_processes_compares_what_the_scheduler_decides(path: Path) -> None:
    assert [f"line {line}: {told}" for line, told in claims(path.read_text("utf-8"))] == []


PLANTED = {
    "assert node.event('round')['participants'] == 4": "how many took part",
    "assert {line['participants'] for line in lines} == {3}": "how many took part",
    "assert len(history(out)) == 3": "how many lines a history has",
    "assert len(seen['history']) == 4": "how many lines a history has",
    "numbers = [line['round'] for line in lines]": "the order of rounds",
    "assert [line['reason'] for line in history(out)] == [None]": "the order of a history's lines",
    "took_s = time.monotonic() - begun": "how long something took",
}


@pytest.mark.parametrize(("line", "told"), PLANTED.items())
def test_each_claim_is_found_unless_the_swarm_waits(line: str, told: str) -> None:
    text = "def test_it({}):\n    {}\n"
    assert list(claims(text.format("make_swarm", line))) == [(2, told)]
    assert list(claims(text.format(WAITING, line))) == []


def test_a_helper_of_tests_that_wait_may_claim_what_they_may() -> None:
    helper = "def check(out):\n    assert len(history(out)) == 3\n"
    test = "def test_{}({}):\n    check(1)\n"
    waiting, other = test.format("one", WAITING), test.format("other", "make_swarm")
    assert list(claims(helper + waiting)) == []
    assert list(claims(helper + waiting + other)) == [(2, "how many lines a history has")]


def test_waiting_for_something_is_no_claim() -> None:
    for line in (
        "node.event_after('round', lambda event: event['participants'] == 3)",
        "deadline = time.monotonic() + 60",
        "rounds = {line['round']: line for line in history(out)}",
        "fallbacks = [line for line in history(out) if line['reason']]",
    ):
        assert list(claims(f"def test_it(make_swarm):\n    {line}\n")) == [], line
