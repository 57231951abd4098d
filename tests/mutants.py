"""Which test kills which mutant: `python -m tests.mutants SOURCES --tests TESTS --out FILE`.

Cosmic Ray's operators make the mutants: one position of a source file each, drawn without repetition. Each
mutant runs in a process of its own, against all tests that reach its line, not only up to the first that
fails, so that the file says which tests are the only ones that find a fault. A file that is there is
continued. Install what it needs with `pip install -e '.[mutants]'`.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType

import pytest
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
TEST_S = 20
"""A test that computes for longer than this under a mutant has found it: the mutant runs for ever."""
MUTANT_S = 900
"""A mutant that takes longer than this is dead: it waits where no test can be interrupted."""


@dataclass(frozen=True)
class Mutant:
    """One change at one place of a file."""

    path: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str


class _WithoutAnnotations(ast.NodeTransformer):
    """An annotation is never evaluated, so what changes one alone is no mutant."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(value=None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def _meaning(source: str) -> str:
    return ast.dump(_WithoutAnnotations().visit(ast.parse(source)))


def _changed(path: str, operator: str, occurrence: int) -> str | None:
    """Returns a file's text after one change; None if there is nothing to change."""
    return MutationVisitor.mutate_code(
        (ROOT / path).read_text(), plugins.get_operator(operator)(), occurrence
    )


def drawn(paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draws `count` positions of all files, and for each one of the operators that apply there."""
    places: dict[tuple[str, tuple[int, int]], list[tuple[str, int]]] = {}
    for path in sorted(paths):
        tree = get_ast((ROOT / path).read_text())
        for name in sorted(plugins.operator_names()):
            operator = plugins.get_operator(name)
            if operator.arguments():
                continue
            positions = (
                start for node in ast_nodes(tree) for start, _ in operator().mutation_positions(node)
            )
            for occurrence, start in enumerate(positions):
                places.setdefault((str(path), start), []).append((name, occurrence))
    rng, mutants = random.Random(seed), list[Mutant]()
    for (path, (line, _)), choices in rng.sample(sorted(places.items()), len(places)):
        source = (ROOT / path).read_text()
        name, occurrence = rng.choice(choices)
        try:
            changed = _changed(path, name, occurrence)
            if changed is None or _meaning(changed) == _meaning(source):
                continue
        except (SyntaxError, AttributeError):  # an operator may not know what it meets: `except a.B`
            continue
        lines = zip(source.splitlines(), changed.splitlines(), strict=False)
        was, now = next((a.strip(), b.strip()) for a, b in lines if a != b)
        mutants.append(Mutant(path, name, occurrence, line, was, now))
        if len(mutants) == count:
            break
    return mutants


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module from a changed source; all others come from their files."""

    def __init__(self, path: str, source: str) -> None:
        self._module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self._path, self._source = path, source

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, ROOT / self._path, loader=self)

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self._path, "exec")

    def is_package(self, fullname: str) -> bool:
        return self._path.endswith("__init__.py")


class _Recorder:
    """Keeps the tests to those that are named, ends those that hang, and remembers those that fail."""

    def __init__(self, only: frozenset[str] | None) -> None:
        self._only, self.failed, self.passed = only, set[str](), set[str]()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._only is not None:
            items[:] = [item for item in items if item.nodeid in self._only]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_VIRTUAL, TEST_S)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call":
            self.passed.add(report.nodeid)


def _hangs(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("this mutant runs for ever")


def _pytest(tests: Iterable[str], recorder: object, *more: str) -> int:
    """Runs pytest in this process, silently."""
    quiet = ["-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]
    signal.signal(signal.SIGVTALRM, _hangs)
    with Path(os.devnull).open("w") as nobody, redirect_stdout(nobody), redirect_stderr(nobody):
        return int(pytest.main([*quiet, *more, *tests], plugins=[recorder]))


def reached(tests: Sequence[str], sources: Sequence[str]) -> dict[str, dict[int, list[str]]]:
    """Returns file, line and the tests that run it; a line that runs at import has the test \"\"."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"

        def run() -> None:
            os.environ["COVERAGE_FILE"] = str(data)
            packages = sorted({f"--cov={source.split('/')[0]}" for source in sources})
            more = ("--cov-context=test", "--cov-report=", "--cov-fail-under=0", *packages)
            os._exit(_pytest(tests, _Recorder(None), *more))

        child = multiprocessing.get_context("fork").Process(target=run)
        child.start()
        child.join()
        if child.exitcode:
            raise SystemExit(f"the tests fail as they are (status {child.exitcode}): mend them first")
        found = CoverageData(str(data))
        found.read()
        return {
            str(Path(file).relative_to(ROOT)): {
                line: [name.rpartition("|")[0] for name in names]  # TEST|setup, TEST|run or TEST|teardown
                for line, names in found.contexts_by_lineno(file).items()
            }
            for file in found.measured_files()
        }


def fate(mutant: Mutant, lines: Mapping[int, Sequence[str]], tests: Sequence[str]) -> dict[str, object]:
    """Runs one mutant against the tests that reach its line; returns those that kill it."""
    reach = frozenset(lines.get(mutant.line, ())) - {""}
    only = reach or None  # what runs when its module is imported may be seen by every test
    files = tests if only is None else sorted({name.split("::")[0] for name in only})
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)

    def run() -> None:
        source = _changed(mutant.path, mutant.operator, mutant.occurrence)
        sys.meta_path.insert(0, _Mutated(mutant.path, source))
        recorder = _Recorder(only)
        status = _pytest(files, recorder)
        broken = status not in (0, 1) or (status == 1 and not recorder.failed)
        there.send(
            {
                "broken": broken,
                "killed": sorted(recorder.failed),
                "ran": len(recorder.passed | recorder.failed),
            }
        )
        os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    there.close()
    found = {"broken": True, "killed": [], "ran": 0}
    if here.poll(MUTANT_S):
        with suppress(EOFError):
            found = here.recv()
        child.join()
    child.kill()
    child.join()
    if child.exitcode == 1:
        raise RuntimeError(f"the tests did not run under {mutant}")
    return {**asdict(mutant), **found}


def main() -> None:
    """Runs the command."""
    sys.dont_write_bytecode = False  # else each process would compile all modules and tests again
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--out", type=Path, required=True, help="a file of one line a mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("sources", nargs="+", help="files or folders to change")
    parser.add_argument("--tests", nargs="+", required=True, help="files or folders of tests")
    given = parser.parse_args()
    paths = [
        path
        for source in given.sources
        for path in ([Path(source)] if source.endswith(".py") else sorted(Path(source).rglob("*.py")))
    ]
    mutants = drawn(paths, given.count, given.seed)
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    names = {(one["path"], one["operator"], one["occurrence"]) for one in known}
    todo = [one for one in mutants if (one.path, one.operator, one.occurrence) not in names]
    lines = reached(given.tests, given.sources)
    for package in ("numpy", "scipy.stats", "torch", "aiohttp", "pyarrow", "msgpack"):
        importlib.import_module(package)  # once, not in each process
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(given.jobs, mp_context=fork) as pool, given.out.open("a") as out:
        fates = [pool.submit(fate, one, lines.get(one.path, {}), given.tests) for one in todo]
        for count, future in enumerate(as_completed(fates), 1):
            out.write(json.dumps(future.result()) + "\n")
            out.flush()
            if count % 20 == 0:
                print(f"{count}/{len(todo)} mutants", flush=True)


if __name__ == "__main__":
    main()
