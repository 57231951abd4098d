"""The audit table: a lower bound for every claim, with a family-wise error over the whole table.

Each row has the level FAMILY_ERROR / rows (Bonferroni), whatever part of the table is run: with probability
.99 or more, no proved claim of the table is refuted, and all lower bounds hold. A row makes `trials` runs on
each of two worst-case neighbours. The first half of them chooses the threshold, the second half is judged by
one-sided Clopper-Pearson bounds on both rates. Planted faults are judged by the same code at the same level.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.audit.case import Case, Claim, Standing
from benchmarks.audit.offers import offer_cases
from benchmarks.audit.one_run import CANARIES, GUESSES, OneRun, one_runs
from benchmarks.audit.records import record_cases
from benchmarks.audit.servers import server_cases
from benchmarks.audit.steps import step_cases
from benchmarks.spec import Figure, Row, figure
from mechanisms.audits import one_run
from mechanisms.audits.audit import distinguish, level, split_bound
from mechanisms.noise.randomness import SeededWords, Words

FAMILY_ERROR = 0.01
Audit = Case | OneRun


def cases() -> list[Case]:
    """Return all cases that are audited by many runs, sound ones and planted faults."""
    return [*offer_cases(), *step_cases(), *record_cases(), *server_cases()]


def audits() -> list[Audit]:
    """Return all audits, sound ones and planted faults, in the order of the table."""
    return [*cases(), *one_runs()]


def row_level(all_audits: list[Audit]) -> float:
    """The error of one row, if these audits are the whole table: planted faults are no claims."""
    return level(FAMILY_ERROR, sum(not audit.fault for audit in all_audits))


def seeded(*names: object) -> Words:
    """Return random words with a seed that follows from the names."""
    return SeededWords(np.random.default_rng(zlib.crc32(repr(names).encode())))


@dataclass(frozen=True, slots=True)
class Judged:
    """An audit's finding: `least` is a lower bound on epsilon that is wrong with probability `error`."""

    audit: Audit
    least: float
    error: float
    draws: int

    @property
    def standing(self) -> Standing:
        """What is known of the claim now."""
        return self.audit.claim.standing(self.least)

    @property
    def holds(self) -> bool | None:
        """Whether the wanted standing came out; None if any is allowed."""
        return None if self.audit.wanted is None else self.standing is self.audit.wanted


def judged(audit: Audit, error: float, quick: bool) -> Judged:
    """Run an audit; the seed follows from its names."""
    words = seeded(audit.mechanism, audit.fault)
    if isinstance(audit, OneRun):
        least = one_run.epsilon_lower_bound(audit.guesses(words), audit.claim.delta, error)
        return Judged(audit, least, error, 1)
    draws = min(audit.trials, audit.quick_trials) if quick else audit.trials
    scores = distinguish(audit.release, audit.pair, draws, words, score=audit.score)
    bound = split_bound(scores, audit.claim.delta, error, audit.method)
    return Judged(audit, bound.epsilon, error, draws)


HEADINGS = ("mechanism", "claim", "is", "at least", "delta", "verdict", "released")
_COLUMNS = "{:36} {:>7} {:7} {:>8} {:>6}   {:13} {}"


def table(chosen: list[Audit], error: float, rows: int, quick: bool) -> Iterator[Row]:
    """Yield the heading and a row for each of the sound audits among `chosen`."""
    yield Row(
        f"{rows} claims, family-wise error {FAMILY_ERROR:g}: each lower bound holds with confidence "
        f"{1 - error:.6f}\n" + _COLUMNS.format(*HEADINGS)
    )
    for audit in chosen:
        yield row(judged(audit, error, quick))


def row(found: Judged) -> Row:
    """Return the line of a finding for the terminal, and its record."""
    claim, audit = found.audit.claim, found.audit
    mark = {True: "✓", False: "✗", None: " "}[found.holds]
    text = _COLUMNS.format(
        audit.mechanism,
        f"{claim.epsilon:.4g}",
        _is(claim),
        f"{found.least:.4g}",
        f"{claim.delta:g}",
        f"{mark} {found.standing}",
        claim.released,
    )
    return Row(text, _record(found))


def _is(claim: Claim) -> str:
    return "proved" if claim.by else "stated"


def _record(found: Judged) -> dict[str, object]:
    claim, audit = found.audit.claim, found.audit
    how: dict[str, object] = {"method": f"one run, {CANARIES} canaries, {GUESSES} guesses"}
    if isinstance(audit, Case):
        how = {
            "draws_a_side": found.draws,
            "judged_a_side": found.draws - found.draws // 2,
            "method": str(audit.method),
        }
    return {
        "benchmark": "audit",
        "kind": "claim",
        "case": audit.mechanism,
        "claim": claim.epsilon,
        "delta": claim.delta,
        "claim_is": _is(claim),
        "proved_by": claim.by,
        "unit": claim.unit,
        "released": claim.released,
        "lower_bound": found.least,
        "confidence": 1 - found.error,
        "family_wise_error": FAMILY_ERROR,
        **how,
        "verdict": str(found.standing),
        "holds": found.holds,
    }


def fault_figures(chosen: list[Audit], error: float, quick: bool) -> Iterator[Figure]:
    """Yield for each planted fault among `chosen` whether its claim is refuted, as it must be."""
    for audit in chosen:
        found = judged(replace(audit, wanted=Standing.REFUTED), error, quick)
        how = "one run" if isinstance(audit, OneRun) else f"{found.draws} a side"
        note = f"epsilon is at least {found.least:.4g}; claim {audit.claim.epsilon:.4g}, {how}"
        refuted = [float(bool(found.holds))]
        yield figure("audit", audit.mechanism, audit.fault, "refuted", refuted, at_least=1, note=note)
