"""The audit's figures: claims that are not refuted, faults that are, and a case for whatever claims."""

import ast
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import mechanisms
from benchmarks.__main__ import main
from benchmarks.audit.case import Case, Claim, Standing, proved_claim
from benchmarks.audit.files import EACH_ROW, EPSILONS, FILE_AUDITS, SPLIT_OF_BEFORE
from benchmarks.audit.one_run import OneRun
from benchmarks.audit.table import FAMILY_ERROR, audits, row, row_level, run_audit
from mechanisms.audits.audit import level
from mechanisms.labels.flips import LabelDP
from mechanisms.mechanism import Guarantee, Unprotected
from mechanisms.registry import CALIBRATIONS, MECHANISMS, SERVER_MECHANISMS
from mechanisms.servers.dp_fedavg import ESTIMATORS
from mechanisms.servers.nbafl import FederatedScopeNbAFL
from mechanisms.servers.server import FedAvg
from mechanisms.updates.local import WINDOW_SOURCES

AUDITS = audits()
CASES = [audit for audit in AUDITS if isinstance(audit, Case)]
CLAIMS = [audit for audit in AUDITS if not audit.fault]


def promises_nothing(maker: Callable[..., object]) -> bool:
    """Whether what is made has a guarantee of None whatever its parameters are."""
    of = maker if isinstance(maker, type) else get_type_hints(maker)["return"]
    guarantee = inspect.getattr_static(of, "guarantee", None)
    try:
        return isinstance(guarantee, property) and guarantee.fget(None) is None
    except AttributeError:  # it looks at its parameters
        return False


def test_quick_audits_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["audit", "--quick", "--only", "label DP, binary", "--json", str(file)]) == 0
    claim, fault = json.loads(file.read_text())
    assert claim["case"] == "label DP, binary"
    assert (claim["claim"], claim["claim_is"], claim["verdict"]) == (4.0, "proved", "not refuted")
    assert "Ghazi" in claim["proved_by"]
    assert "one label" in claim["unit"] or "label of one example" in claim["unit"]
    assert 3.5 < claim["lower_bound"] < 4.0
    assert claim["confidence"] == pytest.approx(1 - FAMILY_ERROR / len(CLAIMS))
    assert (claim["draws_a_side"], claim["judged_a_side"]) == (100_000, 50_000)
    assert claim["holds"]
    assert (fault["figure"], fault["median"], fault["holds"]) == ("epsilon doubled", 1.0, True)
    said = capsys.readouterr().out
    assert f"{len(CLAIMS)} claims, family-wise error 0.01" in said
    assert "✓ not refuted a label, drawn once" in said


def test_a_part_is_run_alone_and_an_unknown_mechanism_answered_with_all_names(capsys, one_line):
    assert main(["audit", "--quick", "--only", "gaussian, one run", "--part", "claims"]) == 0
    assert "an eighth of the noise" not in capsys.readouterr().out
    assert main(["audit", "--quick", "--only", "gaussian, one run", "--part", "faults"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "an eighth of the noise" in said[-1]
    assert "✓ at least 1" in said[-1]
    assert "verdict" not in said[-2]
    line = one_line(main, ["audit", "--only", "magic"])
    assert "--only magic" in line
    assert all(audit.mechanism in line for audit in AUDITS)


def test_the_level_of_a_row_is_that_of_the_whole_table_and_a_claim_without_a_proof_stays_open():
    assert row_level(AUDITS) == pytest.approx(0.01 / len(CLAIMS))
    assert len({audit.mechanism for audit in CLAIMS}) == len(CLAIMS), "one row a claim"
    assert {case.trials for case in CASES} == {20_000, 100_000}
    claim = Claim(4.0, 1e-5, "unit", "an offer", "a theorem")
    only_stated = Claim(4.0, 1e-5, "unit", "an offer", "")
    assert claim.standing(4.0) is Standing.NOT_REFUTED
    assert only_stated.standing(4.0) is Standing.OPEN
    assert claim.standing(4.001) is only_stated.standing(4.001) is Standing.REFUTED


@pytest.mark.sampled("nbafl, upload, as stated-open", "ldp-not refuted")
@pytest.mark.parametrize(
    ("name", "verdict"),
    [("aldp, raw, its loudness", "refuted"), ("nbafl, upload, as stated", "open"), ("ldp", "not refuted")],
)
def test_what_must_come_out_is_marked(name: str, verdict: str) -> None:
    (audit,) = (each for each in CLAIMS if each.mechanism == name)
    shown = row(run_audit(audit, row_level(AUDITS), quick=True))
    assert shown.record["verdict"] == verdict
    assert f"✓ {verdict}" in shown.text


def names_that_promise() -> set[str]:
    """The registered names, each with its options, except for those that promise nothing."""
    found = set(MECHANISMS) - {"none"}
    found |= {name for name, maker in SERVER_MECHANISMS.items() if not promises_nothing(maker)}
    replays = set(CALIBRATIONS) - {"exact"}
    found |= {f"{name}:{calibration}" for name in ("ldp", "aldp") for calibration in replays}
    found |= {f"aldp:{source}" for source in WINDOW_SOURCES}
    found |= {f"dp-fedavg:{estimator}" for estimator in ESTIMATORS}
    return found - {"aldp", "dp-fedavg"}


def uncovered(all_cases: list[Case]) -> set[str]:
    sound = [case for case in all_cases if not case.fault]
    return names_that_promise() ^ set(chain.from_iterable(case.covers for case in sound))


def test_every_registered_mechanism_that_promises_an_epsilon_has_a_case_or_is_missed():
    assert not uncovered(CASES)
    assert promises_nothing(FedAvg)
    assert promises_nothing(FederatedScopeNbAFL)
    assert not promises_nothing(SERVER_MECHANISMS["dp-fedavg"])
    assert Unprotected.guarantee is None
    left = [case for case in CASES if "row-noise" not in case.covers]
    assert uncovered(left) == {"row-noise"}


def classes_that_promise() -> set[type]:
    """Every class of `mechanisms` with a guarantee that may be one, or a ledger, its own or a base's."""
    said: dict[type, bool | None] = {}
    root = Path(mechanisms.__path__[0])
    for path in sorted(root.rglob("*.py")):
        name = ".".join(("mechanisms", *path.relative_to(root).with_suffix("").parts))
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                said[getattr(import_module(name.removesuffix(".__init__")), node.name)] = _promises(node)
    decided = {of: [said[base] for base in of.__mro__ if said.get(base) is not None] for of in said}
    return {of for of, answers in decided.items() if answers and answers[0]}


def _promises(node: ast.ClassDef) -> bool | None:
    """Whether the class has a guarantee that is not None, or a method `ledger`; None: it has neither."""
    if any(ast.unparse(base).startswith("Protocol") for base in node.bases):
        return None
    for member in node.body:
        if isinstance(member, ast.AnnAssign) and ast.unparse(member.target) == "guarantee":
            return member.value is None or ast.unparse(member.value) != "None"
        if isinstance(member, ast.FunctionDef) and member.name == "ledger":
            return True
        if isinstance(member, ast.FunctionDef) and member.name == "guarantee":
            return ast.unparse(member.body[-1]) != "return None"
    return None


def test_every_class_that_promises_an_epsilon_is_the_subject_of_a_case() -> None:
    promising = classes_that_promise()
    audited = {type(audit.subject) for audit in CLAIMS} | {
        base for audit in CLAIMS for base in type(audit.subject).__mro__
    }
    assert {of.__name__ for of in promising} >= {
        "LocalDP",
        "RecordSums",
        "LabelDP",
        "DPFedAvg",
        "AdaptiveClip",
    }
    assert promising <= audited, f"without a case: {promising - audited}"


def test_a_claim_is_what_the_mechanism_itself_says() -> None:
    for audit in CLAIMS:
        guarantee = getattr(audit.subject, "guarantee", None)
        if guarantee is not None and audit.claim.by:
            assert isinstance(guarantee, Guarantee)
            assert audit.claim.epsilon == guarantee.epsilon
            assert audit.claim.delta == guarantee.delta
            assert audit.claim.unit == guarantee.unit.words
    with pytest.raises(ValueError, match="guarantee = None"):
        proved_claim(FedAvg.guarantee.fget(None), "a model", "nothing")


def test_every_mechanism_with_a_clip_or_noise_of_its_own_has_a_planted_fault() -> None:
    faulty = {type(audit.subject) for audit in AUDITS if audit.fault}
    replays = {"LinearClassic", "Rpfl", "DPFedAvg"}
    sound = {type(audit.subject) for audit in CLAIMS if type(audit.subject).__name__ not in replays}
    assert sound <= faulty
    assert any(isinstance(audit, OneRun) and audit.fault for audit in AUDITS)
    assert LabelDP in faulty


@pytest.mark.parametrize(
    ("name", "fault"), [("file, counts", SPLIT_OF_BEFORE), ("file, counts, persons", EACH_ROW)]
)
def test_a_file_with_and_without_a_row_or_a_person(name, fault):
    """What is promised is not refuted, and the planted fault is; few runs of the cheapest mechanism do."""
    sound, faulty = FILE_AUDITS[name](3.0)
    error = level(FAMILY_ERROR, len(FILE_AUDITS) * len(EPSILONS))
    assert (sound.fault, faulty.fault) == ("", fault)
    assert run_audit(replace(sound, quick_trials=100), error, quick=True).standing is Standing.NOT_REFUTED
    assert run_audit(replace(faulty, quick_trials=100), error, quick=True).standing is Standing.REFUTED
    assert np.linalg.norm(sound.pair.y1 - sound.pair.y0) > 0.9, "the row is released"
