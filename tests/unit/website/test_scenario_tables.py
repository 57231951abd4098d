"""The tables in docs/scenarios say what docs/results says: figures, standard errors and verdicts."""

import json
import math
import re
import tomllib
from statistics import fmean, stdev

import pytest

from scenarios.frame.stored import write_packed
from website.scenario_tables import (
    BLOCK,
    DOCS,
    UNJUDGED,
    Page,
    SpecificationError,
    Statement,
    filled_page,
    main,
    verdict,
)
from website.stored_figures import PLACEHOLDER, Figures, StoredFigureError, read_result

NOT_STORED = {
    "README.md": ["95.4 %", "84.6 %", "22.4 %", "76.0 %", "85.0 %", "86.5 %"],
    "distributed-dp.md": ["93.8 %"],
    "lying-peers.md": ["91.6 %", "66.0 %"],
}
"""Measurements beside the full runs; the pages say so."""
PAIR = {"quiet": [0.9, 0.95, 1.0], "noised": [0.5, 0.57, 0.58]}
RESULT = {
    "scenario": "made",
    "seed": 3,
    "method": "By Student's t.",
    "arms": {
        arm: {
            "seeds": [
                {"seed": seed, "figures": [0.1, 0.3, figure], "epsilon": 7.0 + seed, "note": "text"}
                for seed, figure in enumerate(figures, 3)
            ]
        }
        for arm, figures in PAIR.items()
    }
    | {"alone": {"accuracy": 0.7}},
    "claims": [
        {
            "name": "Noise costs accuracy (2 SE)",
            "kind": "finding",
            "holds": True,
            "numbers": {"points": 40.0},
        },
        {"name": "Noise is worth nothing", "holds": False, "numbers": {"points": 2500, "which": None}},
        {"name": "What is stated is spent", "kind": "identity", "holds": True, "numbers": {}},
    ],
}
SPECIFICATION = """
result = "made"
figure = "accuracy, {seeds()|.0f} seeds"

[[statement]]
statement = "noise | costs"
arms = ["quiet", "noised"]
claims = ["costs accuracy"]
remark = "{quiet - noised|±} points"

[[table]]
name = "few"
header = ["", "mean"]
rows = [["noised", "{noised|.3f}"]]
"""
PAGE = """# Made

Before. <!-- figure: quiet -->1<!-- end --> %

<!-- table: statements -->
<!-- end -->

<!-- table: few -->
stale
<!-- end -->

<!-- table: claims -->
<!-- end -->
"""


@pytest.fixture
def docs(tmp_path):
    """A docs folder with one page, its TOML file and its result."""
    folder = tmp_path / "docs"
    (folder / "results").mkdir(parents=True)
    (folder / "scenarios").mkdir()
    (folder / "results" / "made.json").write_text(json.dumps(RESULT))
    (folder / "scenarios" / "made.toml").write_text(SPECIFICATION)
    (folder / "scenarios" / "made.md").write_text(PAGE)
    return folder


@pytest.fixture
def figures(docs):
    """The figures of the made result, in per cent."""
    return Figures(results=lambda name: read_result(docs / "results" / f"{name}.json"), own="made", usual="%")


def judged(figures, **row):
    return verdict(Statement(statement="s", **row), figures, figures.results("made"))


def test_every_page_is_what_the_results_say_with_a_table_of_claims(capsys):
    assert main(["--check"]) == 0, capsys.readouterr().err
    pages = [path for path in (DOCS / "scenarios").glob("*.md") if path.name != "README.md"]
    assert len(pages) >= 10
    assert not [path.name for path in pages if "<!-- table: claims -->" not in path.read_text("utf-8")]
    assert not {"reproduced", "holds", "proved", "refuted", "not reproduced", "does not hold"} & set(UNJUDGED)


def own_figures(text: str) -> list[str]:
    """The percentages, and the decimals of probabilities, that a text states without a placeholder."""
    return re.findall(
        r"(?<![\d.])\d+\.\d+ %|(?<![\w.])0?\.\d{2,} (?:with|against|for)", PLACEHOLDER.sub("", text)
    )


@pytest.mark.parametrize("path", sorted((DOCS / "scenarios").glob("*.toml")), ids=lambda path: path.name)
def test_no_figure_in_a_table_is_written_by_hand(path):
    read = tomllib.loads(path.read_text("utf-8"))
    texts = [row.get(key, "") for row in read.get("statement", []) for key in ("figures", "remark")]
    assert not [figure for text in texts for figure in own_figures(text)]


def test_a_figure_written_by_hand_is_found():
    assert own_figures("it reaches 12.5 % of {quiet} %") == ["12.5 %"]


@pytest.mark.parametrize("path", sorted((DOCS / "scenarios").glob("*.md")), ids=lambda path: path.name)
def test_no_sentence_has_a_figure_of_its_own_unless_it_is_known_not_to_be_stored(path):
    outside = BLOCK.sub("", path.read_text("utf-8"))
    assert own_figures(outside) == NOT_STORED.get(path.name, [])
    assert "\n<!-- figure:" not in path.read_text("utf-8"), "Markdown would take it for a block of HTML"


def test_a_stale_page_is_named_and_then_mended_and_a_missing_one_refused(docs, capsys, one_line):
    assert one_line(main, ["--check"], docs, status=1) == (
        "error: docs/scenarios/made.md is not what docs/results says; run python -m website.scenario_tables"
    )
    assert main([], docs) == 0
    assert main(["--check"], docs) == 0
    assert main([], docs) == 0
    assert capsys.readouterr().out == "docs/scenarios/made.md\n"
    (docs / "scenarios" / "made.md").unlink()
    assert one_line(main, [], docs) == "error: made.toml has no page made.md beside it; write that page"


@pytest.mark.parametrize(
    ("old", "new"), [('"holds": true', '"holds": false'), ("[0.1, 0.3, 0.9]", "[0.1, 0.3, 0.8]")]
)
def test_a_page_is_stale_when_a_verdict_or_a_figure_changes(docs, old, new):
    main([], docs)
    text = json.dumps(RESULT)
    assert old in text
    (docs / "results" / "made.json").write_text(text.replace(old, new, 1))
    assert main(["--check"], docs) == 1


def test_a_new_result_is_kept_packed_and_the_page_is_held_to_its_seeds(docs, tmp_path, capsys, one_line):
    arms = {arm: own for arm, own in RESULT["arms"].items() if "seeds" in own}
    study = {**RESULT, "arms": arms, "configuration": {"arms": {arm: {"rate": 0.1} for arm in arms}}}
    given, table = tmp_path / "result.json", docs / "results" / "made.parquet"
    given.write_text(json.dumps(study))
    assert main([str(given)], docs) == 0
    assert "<!-- figure: quiet -->95.0<!-- end -->" in (docs / "scenarios" / "made.md").read_text()
    assert "0.95" not in (docs / "results" / "made.json").read_text()
    assert main(["--check"], docs) == 0
    write_packed(
        docs / "results" / "made.json",
        json.loads(json.dumps(study).replace("[0.1, 0.3, 0.9]", "[0.1, 0.3, 0.8]")),
    )
    assert main(["--check"], docs) == 1
    table.write_bytes(table.read_bytes()[:-9])
    assert one_line(main, ["--check"], docs) == (
        f"error: made.toml: {table} does not hold the seeds of made.json; restore the two files of one run"
    )
    given.write_text(json.dumps(RESULT))
    assert "the result has no arms with seeds" in one_line(main, [str(given)], docs)


def test_the_tables_say_figures_verdicts_and_where_they_come_from(docs):
    main([], docs)
    page = (docs / "scenarios" / "made.md").read_text()
    assert "Before. <!-- figure: quiet -->95.0<!-- end --> %" in page
    assert "| statement | accuracy, 3 seeds | verdict | what the run shows | from |" in page
    assert (
        "| noise \\| costs | `quiet` 95.0 ± 2.9<br>`noised` 55.0 ± 2.5 | reproduced | 40.0 ± 1.2 points "
        "| [claim 1](#claim-1), [made.json](../results/made.json) |"
    ) in page
    assert "| noised | 0.550 |" in page
    assert "stale" not in page
    assert "By Student's t.\n\n|" in page
    assert '| <a id="claim-1"></a>1 | Noise costs accuracy (2 SE) | holds | points: 40 |' in page
    assert "Noise is worth nothing | **does not hold** | points: 2,500; which: none |" in page
    assert "What is stated is spent (identity) | holds |" in page


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[[table]]", "[[tables]]", "made.toml: no key 'tables'; allowed are result, figure"),
        ('claims = ["costs accuracy"]', "", "needs either claims, against, tests or refuted, or a verdict"),
        ('claims = ["costs accuracy"]', 'verdict = "reproduced"', "verdict 'reproduced' needs a claim or"),
        ('claims = ["costs accuracy"]', 'claims = ["Noise"]', "2 claims of made.json have the words 'Noise'"),
        ('claims = ["costs accuracy"]', 'claims = ["gone"]', "0 claims of made.json have the words 'gone'"),
        ('claims = ["costs accuracy"]', 'refuted = ["costs"]', "only a statement of kind epsilon has"),
        ("arms =", 'kind = "odd"\narms =', "kind 'odd'; allowed are source, own and epsilon"),
        ("noised|.3f", "gone|.3f", "made.toml: made.json has no arm 'gone'"),
        ('result = "made"', 'result = "other"', "made.toml: other.json is not in"),
        ('name = "few"', 'name = "many"', "made.toml: no table 'few'; there are statements, claims, many"),
        ('name = "few"', "", "made.toml: Table.__init__() missing 1 required positional argument: 'name'"),
        ("rows = ", "rows ", "made.toml: Expected '='"),
    ],
)
def test_a_wrong_specification_is_one_line_that_names_it(docs, one_line, old, new, told):
    assert old in SPECIFICATION
    (docs / "scenarios" / "made.toml").write_text(SPECIFICATION.replace(old, new))
    line = one_line(main, [], docs)
    assert line.startswith("error: made.toml")
    assert told in line


@pytest.mark.parametrize("cut", ["<!-- end -->", "<!-- table: statements -->"])
def test_a_marker_without_its_partner_is_refused(figures, cut):
    page = Page(result="made", figure="")
    with pytest.raises(SpecificationError, match=r"no <!-- end -->, or no beginning"):
        filled_page("<!-- table: statements -->\n<!-- end -->".replace(cut, ""), page, figures)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"claims": ["costs accuracy"]}, "reproduced"),
        ({"claims": ["costs accuracy", "worth nothing"]}, "reproduced in part"),
        ({"claims": ["worth nothing"]}, "not reproduced"),
        ({"against": ["costs accuracy"]}, "not reproduced"),
        ({"against": ["worth nothing"], "kind": "own"}, "holds"),
        ({"tests": ["quiet > noised", "noised <= 0.55"], "kind": "own"}, "holds"),
        ({"tests": ["quiet > noised", "noised >= 0.9"], "kind": "own"}, "holds in part"),
        ({"tests": ["quiet < noised"], "kind": "own"}, "does not hold"),
        ({"claims": ["is spent"], "kind": "epsilon"}, "proved"),
        ({"claims": ["is spent", "worth nothing"], "kind": "epsilon"}, "open"),
        ({"against": ["costs accuracy"], "kind": "epsilon"}, "open"),
        ({"refuted": ["costs accuracy"], "kind": "epsilon"}, "refuted"),
        ({"refuted": ["worth nothing"], "kind": "epsilon"}, "open"),
        ({"verdict": "not run"}, "not run"),
    ],
)
def test_a_verdict_follows_from_the_result(figures, row, expected):
    assert judged(figures, **row) == expected


def test_a_difference_has_the_standard_error_of_pairs_and_a_test_is_a_comparison(figures):
    found = figures.value("quiet - noised")
    pairs = [one - other for one, other in zip(PAIR["quiet"], PAIR["noised"], strict=True)]
    assert found.mean == pytest.approx(fmean(pairs))
    assert found.standard_error == pytest.approx(stdev(pairs) / math.sqrt(3))
    with pytest.raises(StoredFigureError, match="write one such as"):
        figures.holds("quiet")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{noised}", "55.0"),
        ("{noised|%2}", "55.00"),
        ("{noised|.2f}", "0.55"),
        ("{noised|±.2f}", "0.55 ± 0.03"),
        ("{noised@4}", "57.0"),
        ("{noised@least} to {noised@most}", "50.0 to 58.0"),
        ("{noised[1..2]}", "20.0"),
        ("{noised/epsilon|.0f}", "11"),
        ("{noised@3/epsilon|.0f}", "10"),
        ("{noised@most/epsilon|.0f}", "12"),
        ("{max(*i*)}", "95.0"),
        ("{min(*noise*)}", "55.0"),
        ("{max(noi*/epsilon)|.0f}", "11"),
        ("{claim(costs accuracy)/points|.0f}", "40"),
        ("{100 * noised - 5 / 10|.1f}", "5.0"),
        ("{made::quiet - made::quiet|±}", "0.0 ± 0.0"),
        ("{alone/accuracy}", "70.0"),
        ("{arms()|.0f} {seeds()|.0f}", "3 3"),
        ("{findings_hold()|.0f} of {findings()|.0f}", "1 of 2"),
        ("{identities_hold()|.0f} of {identities()|.0f}", "1 of 1"),
        ("{1250 * 10|,.0f}", "12,500"),
        ("{12500 * 1000000|.2e}", "1.25e10"),
        ("no placeholder", "no placeholder"),
    ],
)
def test_an_expression_is_filled_in(figures, text, expected):
    assert figures.filled(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{gone}", "no arm 'gone'"),
        ("{noised|x}", "'x' is no format"),
        ("{noised|}", "'' is no format"),
        ("{noised/gone}", "has no number 'gone'; it has seed, epsilon"),
        ("{noised/note}", "has no number 'note'"),
        ("{noised@9}", "no seed 9"),
        ("{noised[2..4]}", "lacks rounds"),
        ("{alone}", "has no figures by round"),
        ("{quiet - alone/accuracy}", "differ; compare arms with the same"),
        ("{max(gone*)}", "no arm of made.json matches 'gone*'"),
        ("{claim(worth nothing)/which}", "has no number 'which'; it has points, which"),
        ("{days()}", "days() is not known; allowed are arms(), seeds()"),
        ("{other::quiet}", "other.json is not in"),
    ],
)
def test_what_the_result_does_not_have_is_said(figures, text, told):
    with pytest.raises(StoredFigureError) as caught:
        figures.filled(text)
    assert told in str(caught.value)
