"""`make test` runs every test file once, says what each part came to, and fails with any of them."""

from pathlib import Path

import pytest

from tests import suite
from tests.suite import PARTS, ROOT, Ended, Part, closing, run

FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("file", FILES)
def test_each_file_is_in_one_part(file: str) -> None:
    assert len([part.name for part in PARTS if part.holds(file)]) == 1


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_what_a_part_names_is_there(part: Part) -> None:
    assert all((ROOT / path).exists() for path in (*part.paths, *part.left_out))


def test_only_the_traced_part_takes_the_coverage_and_only_processes_go_first() -> None:
    assert [part.name for part in PARTS if "--cov" in part.options] == ["coverage"]
    assert PARTS[0].name == "processes"


def outcome(tmp_path: Path, body: str) -> Ended:
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {body}\n")
    (tmp_path / "test_two.py").write_text("def test_two():\n    assert False\n")
    return run(Part("planted", (str(tmp_path),), (str(tmp_path / "test_two.py"),)))


def test_a_part_ends_as_its_tests_do(tmp_path: Path) -> None:
    good = outcome(tmp_path, "pass")
    assert (good.status, good.summary.rpartition(" in ")[0]) == (0, "1 passed")
    bad = outcome(tmp_path, "assert False, 'planted'")
    assert (bad.status, bad.summary.rpartition(" in ")[0]) == (1, "1 failed")
    assert "planted" in bad.output


def test_the_closing_line_counts_all_parts() -> None:
    one = Ended(PARTS[0], 0, "...\n=== 7 passed, 2 skipped, 80 deselected in 61.20s (0:01:01) ===\n")
    other = Ended(PARTS[2], 1, "...\n=== 1 failed, 5 passed in 3.10s ===\n")
    assert closing([one], 65.3) == "80 deselected, 7 passed, 2 skipped in 65s"
    assert closing([one, other], 70) == (
        "80 deselected, 1 failed, 12 passed, 2 skipped in 70s; NOT WELL: coverage"
    )


def test_the_run_fails_with_any_part_and_tells_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, body in (("good", "pass"), ("bad", "assert False")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(f"def test_it():\n    {body}\n")
    good, bad = (Part(name, (str(tmp_path / name),)) for name in ("good", "bad"))
    monkeypatch.setattr(suite, "PARTS", (good, good))
    assert suite.main() == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 passed in ")
    monkeypatch.setattr(suite, "PARTS", (good, bad))
    assert suite.main() == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 failed, 1 passed in ")
