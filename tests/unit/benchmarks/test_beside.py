"""The benchmark beside other systems: its jobs, its refusals, and the page that is made from its file."""

import json
import re

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.beside.benchmark import last_json
from benchmarks.beside.cases import ROUNDS, SITES, make_case
from benchmarks.beside.programs import work
from node.system.errors import UserError
from website import beside


@pytest.mark.sampled("digits-0.5-4810")
@pytest.mark.parametrize(("case", "least", "numbers"), [("digits", 0.5, 4810), ("lora", 0.3, 808)])
def test_the_mean_of_all_sites_learns(tmp_path, case, least, numbers):
    make_case(tmp_path, case, 0)
    given = work.initial(tmp_path)
    assert sum(part.size for part in given.values()) == numbers
    assert work.score(tmp_path, given) < 0.2
    sites = [work.Site(tmp_path, number) for number in range(SITES)]
    for one in (1, 2, 3):
        parts = [site.part(given, one) for site in sites]
        given = {name: np.mean([part[name] for part in parts], axis=0) for name in given}
    assert work.score(tmp_path, given) > least


def test_counts_of_all_sites_are_the_pooled_curve(tmp_path):
    make_case(tmp_path, work.SURVIVAL, 0)
    parts = [work.Site(tmp_path, number).part({}, 1)["counts"] for number in range(SITES)]
    assert work.score(tmp_path, {"counts": np.mean(parts, axis=0)}) < 1e-12
    assert work.score(tmp_path, {"counts": parts[0]}) > 1e-3


def test_the_curve_is_kaplan_and_meiers():
    counted = work.counts(np.array([1, 2, 2, 3]), np.array([1, 1, 0, 1]))
    assert work.curve(counted)[:5] == pytest.approx([1, 3 / 4, 1 / 2, 0, 0])


@pytest.mark.parametrize(
    ("python", "line"),
    [(None, "there is no bin/python"), ("/bin/true", "list index"), ("/bin/false", "it said nothing")],
)
def test_an_environment_that_gives_no_answer_is_one_line(tmp_path, one_line, python, line):
    if python is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").symlink_to(python)
    if python is None:
        assert line in one_line(main, ["beside", "--quick", "--flower", str(tmp_path)])
    else:
        with pytest.raises(UserError, match=line):
            last_json(tmp_path / "bin" / "python", "flower", tmp_path)


def test_the_page_has_the_file_s_figures(tmp_path):
    def one(case, name, median, note=""):
        return {
            "case": case,
            "figure": name,
            "median": median,
            "min": median,
            "max": median,
            "note": note,
        } | {
            "machine": "a machine",
            "versions": {"torch": "2"},
        }

    figures = [one(f"{case}, flower", "whole", 12.0) for case in ROUNDS]
    figures += [one(f"{case}, flower", "accuracy", 0.9512, "flwr 1.28.0") for case in ("digits", "lora")]
    figures += [one("survival, flower", "distance from pooled", 0.0)]
    (tmp_path / "beside.json").write_text(json.dumps(figures))
    page = beside.page(tmp_path / "beside.json")
    assert page.count("| flower | 0.951 | 12 |  |  | the server |") == 2
    assert "a machine, flwr 1.28.0, torch 2." in page
    assert not re.search(r"\{\w+\}", page)
