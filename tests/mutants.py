"""Which test kills which mutant: `python -m tests.mutants SOURCES --tests TESTS --out FILE`.

Cosmic Ray's operators make the mutants: one position of a source file each, drawn without repetition. Each
mutant runs in a process of its own against all tests that reach its statement, not only up to the first that
fails, so that the file says which tests are the only ones that find a fault. Quick tests run first; after
`--seconds` of CPU the others are left out, and counted. A file that is there is continued; what lived while
tests were left out is tried again with more seconds. FILE.reach keeps which test runs which line.
Install what it needs with `pip install -e '.[mutants]'`.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.abc
import importlib.util
import json
import multiprocessing
import os
import random
import resource
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from difflib import unified_diff
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from coverage import Coverage, CoverageData

from benchmarks.machine import machine, versions

ROOT = Path(__file__).parents[1]
TEST_S = 5
"""A test that computes for longer than this under a mutant has found it: the mutant runs for ever."""
SILENT_S = 120
"""A test that ends neither by itself nor by its limit waits for something: this mutant is dead as well."""
Run = Callable[[Sequence[pytest.Item]], None]
Start = Callable[[Run], object]
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Mutant:
    """One change at one place of a file."""

    path: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.path} {self.operator} {self.occurrence}"

    @property
    def changed(self) -> str:
        """The file's text after the change."""
        return _changed(self.path, self.operator, self.occurrence) or ""


class Endless(BaseException):
    """Ends a test that runs for ever; no handler of the code takes it for an error of its own."""


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
        nodes = list(ast_nodes(get_ast((ROOT / path).read_text())))
        for name in sorted(plugins.operator_names()):
            operator = plugins.get_operator(name)
            if operator.arguments():
                continue
            positions = (start for node in nodes for start, _ in operator().mutation_positions(node))
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
        diff = [*unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm="")][3:]
        texts = [(one[0], one[1:].strip()) for one in diff if one[1:].strip()]
        was, now = (next((text for mark, text in texts if mark == sign), "") for sign in "-+")
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


def _inner(code: CodeType) -> list[CodeType]:
    return [part for part in code.co_consts if isinstance(part, CodeType)]


def exchanged(old: CodeType, new: CodeType) -> dict[CodeType, CodeType] | None:
    """Returns the functions of a module with their changed code; None if the change is outside of them."""
    pairs = dict[CodeType, CodeType]()
    for was, now in zip(_inner(old), _inner(new), strict=True):
        if was.co_flags & 2:  # CO_NEWLOCALS: a function, and no body of a class
            pairs[was] = now
        else:
            within = exchanged(was, now)
            if within is None:
                return None
            pairs |= within
    blank = {"co_consts": (), "co_linetable": b""}
    plain = [[part for part in code.co_consts if not isinstance(part, CodeType)] for code in (old, new)]
    same = plain[0] == plain[1] and old.replace(**blank) == new.replace(**blank)
    return pairs if same else None


class _Reach:
    """Which tests run which line, and how long each test takes: made once, and kept in a file."""

    def __init__(self, file: Path) -> None:
        found = json.loads(file.read_text())
        self.seconds: dict[str, float] = found["seconds"]
        self._tests = list(self.seconds)
        self._lines: dict[str, dict[str, list[int]]] = found["lines"]

    def of(self, mutant: Mutant) -> frozenset[str]:
        """Returns the tests that reach the statement; where it runs at import, those that reach its file."""
        tree = ast.parse((ROOT / mutant.path).read_text())
        statements = (one for one in ast.walk(tree) if isinstance(one, ast.stmt))
        statement = max((one for one in statements if one.lineno <= mutant.line), key=lambda one: one.lineno)
        inner = [one.lineno for one in getattr(statement, "body", ()) if isinstance(one, ast.stmt)]
        own = range(statement.lineno, min([*inner, (statement.end_lineno or 0) + 1]))
        lines = self._lines.get(mutant.path, {})
        found = {test for line in own for test in lines.get(str(line), ())}
        found = found or {test for tests in lines.values() for test in tests}
        return frozenset(self._tests[number] for number in found)

    @staticmethod
    def make(file: Path, items: Sequence[pytest.Item], sources: Sequence[str]) -> None:
        """Runs all tests under coverage."""
        include = [str(ROOT / source / "*") for source in sources]
        coverage, seconds = Coverage(data_file=None, config_file=False, include=include), dict[str, float]()
        failed = set[str]()
        coverage.start()
        for item in items:
            coverage.switch_context(item.nodeid)
            begun = time.process_time()
            if not _passes(item):
                failed.add(item.nodeid)
            seconds[item.nodeid] = round(time.process_time() - begun, 4)
        coverage.stop()
        if failed:
            print("these tests fail as they are:", *sorted(failed), sep="\n", file=sys.__stderr__)
            return
        data: CoverageData = coverage.get_data()
        number = {test: at for at, test in enumerate(seconds)}
        lines = {
            str(Path(path).relative_to(ROOT)): {
                line: [number[test] for test in tests if test]
                for line, tests in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        file.write_text(json.dumps({"seconds": seconds, "lines": lines}))


class _Outcomes:
    """Hears of tests that fail, and ends those that run for ever."""

    def __init__(self) -> None:
        self.failed = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self.failed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, TEST_S, TEST_S)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed


def _passes(item: pytest.Item) -> bool:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return not item.config.pluginmanager.get_plugin("outcomes").failed


def _hangs(number: int, frame: FrameType | None) -> None:
    raise Endless("this mutant runs for ever")


def _collected(tests: Iterable[str], then: Callable[[list[pytest.Item]], object]) -> int:
    """Collects the tests in this process, silently, and hands them over."""

    class Loop:
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            session.config.pluginmanager.register(_Outcomes(), "outcomes")
            then(session.items)
            return True

    without = (f"-pno:{name}" for name in ("cacheprovider", "xdist", "cov"))
    options = ("-qs", "--full", "--tb=no", "--no-header", *without)
    signal.signal(signal.SIGVTALRM, _hangs)
    with Path(os.devnull).open("w") as nobody, redirect_stdout(nobody), redirect_stderr(nobody):
        return int(pytest.main([*options, *tests], plugins=[Loop()]))


@dataclass(frozen=True)
class Trial:
    """Tries mutants, and writes what became of them."""

    out: Path
    reach: _Reach
    seconds: float
    before: Mapping[str, frozenset[str]] | None
    """Which tests killed which mutant in an earlier file: they run first, and the first to fail is enough."""

    def each(self, mutants: Sequence[Mutant], jobs: int, how: Callable[[Mutant], Start | None]) -> None:
        """Tries all mutants that can be tried in this way, so many at once."""

        def some(number: int) -> None:
            with self.out.open("a") as out:
                for mutant in mutants[number::jobs]:
                    if start := how(mutant):
                        out.write(json.dumps(self._fate(mutant, start)) + "\n")
                        out.flush()

        workers = [FORK.Process(target=some, args=(number,)) for number in range(jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _fate(self, mutant: Mutant, start: Start) -> dict[str, object]:
        """Runs one mutant in a process of its own; returns the tests that kill it."""
        reach = self.reach.of(mutant)
        here, there = FORK.Pipe(duplex=False)
        first = (self.before or {}).get(mutant.name, frozenset())
        child = FORK.Process(target=self._child, args=(start, reach, first, there))
        child.start()
        there.close()
        ended: dict[str, bool] = {}
        with suppress(EOFError):
            while here.poll(SILENT_S):
                test, passed = here.recv()
                ended[test] = passed
        child.kill()
        child.join()
        killed = sorted(test for test, passed in ended.items() if not passed)
        untried = len(reach) - len(ended)
        found = {"broken": bool(reach) and not ended, "killed": killed, "untried": untried}
        return {**asdict(mutant), **found, "seconds": self.seconds}

    def _child(self, start: Start, reach: frozenset[str], first: frozenset[str], there: Connection) -> None:
        most = int(self.seconds) + 60
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))

        def run(items: Sequence[pytest.Item]) -> None:
            begun = time.process_time()
            chosen = (item for item in items if item.nodeid in reach)
            for item in sorted(
                chosen, key=lambda one: (one.nodeid not in first, self.reach.seconds[one.nodeid])
            ):
                there.send((item.nodeid, False))  # should this one be the end of the process
                passed = _passes(item)
                there.send((item.nodeid, passed))
                is_enough = self.before is not None and not passed
                if is_enough or time.process_time() - begun > self.seconds:
                    break

        start(run)
        os._exit(0)


def in_place(
    live: Mapping[str, Sequence[FunctionType]], items: Sequence[pytest.Item], mutant: Mutant
) -> Start | None:
    """Changes the functions that are loaded; None if the change is outside of functions."""
    codes = [compile(text, "", "exec") for text in ((ROOT / mutant.path).read_text(), mutant.changed)]
    pairs = exchanged(*codes)
    found = [one for one in live.get(str(ROOT / mutant.path), ()) if pairs and one.__code__ in pairs]
    if not pairs or not any(pairs[one.__code__] != one.__code__ for one in found):
        return None

    def start(run: Run) -> None:
        for function in found:
            function.__code__ = pairs[function.__code__]
        run(items)

    return start


def by_import(reach: _Reach, mutant: Mutant) -> Start:
    """Imports the changed file, and then collects the tests."""
    files = sorted({test.split("::")[0] for test in reach.of(mutant)})

    def start(run: Run) -> None:
        sys.meta_path.insert(0, _Mutated(mutant.path, mutant.changed))
        _collected(files, run)

    return start


def fates(file: Path) -> dict[str, dict[str, Any]]:
    """Reads what became of each mutant; of two lines about one the later counts."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {f"{one['path']} {one['operator']} {one['occurrence']}": one for one in lines}


def is_dead(fate: Mapping[str, Any]) -> bool:
    """Returns whether a test failed, or none could be loaded."""
    return bool(fate["killed"] or fate["broken"])


def results(found: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Returns in short what became of the mutants, and how those read that live."""
    living = [one for one in found.values() if not is_dead(one)]
    return {
        "command": shlex.join(("python", "-m", "tests.mutants", *sys.argv[1:])),
        "machine": machine(),
        "versions": {**versions(), "cosmic-ray": metadata.version("cosmic-ray")},
        "before": {"tried": len(before), "died": sum(map(is_dead, before.values()))},
        "now": {"tried": len(found), "died": len(found) - len(living)},
        "living": sorted((f"{one['path']}:{one['line']}", one["before"], one["after"]) for one in living),
    }


def main() -> None:
    """Runs the command."""
    sys.dont_write_bytecode = False  # else each process would compile all modules and tests again
    os.environ["CI"] = "yes"  # Hypothesis draws the same examples each time, and keeps none
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--out", type=Path, required=True, help="a file of one line a mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=60, help="CPU time of all tests of one mutant")
    parser.add_argument(
        "--before",
        type=Path,
        help="an earlier file: what killed a mutant there runs first, and one test is enough",
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="where to write the figures in short")
    parser.add_argument("sources", nargs="+", help="files or folders to change")
    parser.add_argument("--tests", nargs="+", required=True, help="files or folders of tests")
    given = parser.parse_args()
    paths = [
        path
        for source in given.sources
        for path in ([Path(source)] if source.endswith(".py") else sorted(Path(source).rglob("*.py")))
    ]
    mutants = drawn(paths, given.count, given.seed)
    given.out.touch()
    for package in ("numpy", "scipy.stats", "msgpack", "cryptography.hazmat.primitives.ciphers.aead"):
        importlib.import_module(package)  # once, not in each process

    def todo() -> list[Mutant]:
        done = {
            name
            for name, one in fates(given.out).items()
            if is_dead(one) or not one["untried"] or one["seconds"] >= given.seconds
        }
        return [one for one in mutants if one.name not in done]

    earlier = fates(given.before) if given.before else {}
    before = {name: frozenset(one["killed"]) for name, one in earlier.items()} if given.before else None

    reach = given.out.with_name(given.out.name + ".reach")

    def loaded(items: list[pytest.Item]) -> None:
        if not reach.exists():
            maker = FORK.Process(target=_Reach.make, args=(reach, items, given.sources))
            maker.start()
            maker.join()
        live: dict[str, list[FunctionType]] = {}
        gc.unfreeze()  # what was frozen after the collection is among no objects
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                live.setdefault(one.__code__.co_filename, []).append(one)
        gc.freeze()
        if reach.exists():
            trial = Trial(given.out, _Reach(reach), given.seconds, before)
            trial.each(todo(), given.jobs, lambda mutant: in_place(live, items, mutant))

    first = FORK.Process(target=_collected, args=(given.tests, loaded))
    first.start()
    first.join()
    if first.exitcode or not reach.exists():
        raise SystemExit("the tests cannot be loaded, or fail as they are: mend them first")
    trial = Trial(given.out, _Reach(reach), given.seconds, before)
    trial.each(todo(), given.jobs, lambda mutant: by_import(trial.reach, mutant))
    found = fates(given.out)
    if given.results:
        given.results.write_text(json.dumps(results(found, earlier), indent=1) + "\n")
    print(f"{len(found)} mutants, of which {sum(map(is_dead, found.values()))} die")
    died = {name for name, one in earlier.items() if is_dead(one)}
    if lives := sorted(name for name, one in found.items() if name in died and not is_dead(one)):
        raise SystemExit("\n".join(("these died before:", *lives)))


if __name__ == "__main__":
    main()
