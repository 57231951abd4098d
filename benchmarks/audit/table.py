"""The audit table: a lower bound for every claim, with a family-wise error over the whole table.

The error of each row is FAMILY_ERROR / rows (Bonferroni), whatever part of the table is run. So with
probability .99 or more all lower bounds hold, and no proved claim is refuted. A row makes `trials` runs on
each of two worst neighbours. The first half of the runs chooses a threshold; the second half gives one-sided
Clopper-Pearson bounds on both error rates. The same code judges planted faults, at the same error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.audit.case import Case, Claim, Standing, seeded_words
from benchmarks.audit.offers import offer_cases
from benchmarks.audit.one_run import CANARIES, GUESSES, OneRun, one_runs
from benchmarks.audit.records import record_cases
from benchmarks.audit.servers import server_cases
from benchmarks.audit.steps import step_cases
from benchmarks.spec import Figure, Row, figure
from mechanisms.audits import one_run
from mechanisms.audits.audit import distinguish, level, split_bound

FAMILY_ERROR = 0.01
Audit = Case | OneRun


def audits() -> list[Audit]:
    """Return all audits in the order of the table, sound ones and planted faults."""
    return [*offer_cases(), *step_cases(), *record_cases(), *server_cases(), *one_runs()]


def row_level(all_audits: list[Audit]) -> float:
    """Return the error of a row if these audits are the whole table. Planted faults do not count."""
    return level(FAMILY_ERROR, sum(not audit.fault for audit in all_audits))


@dataclass(frozen=True, slots=True)
class Judged:
    """`least` is a lower bound on epsilon, wrong with probability `error`, by `draws` runs on each input."""

    audit: Audit
    least: float
    error: float
    draws: int

    @property
    def standing(self) -> Standing:
        """What is known of the claim with this bound."""
        return self.audit.claim.standing(self.least)

    @property
    def holds(self) -> bool | None:
        """Whether the wanted standing came out; None if any may."""
        return None if self.audit.wanted is None else self.standing is self.audit.wanted


def run_audit(audit: Audit, error: float, quick: bool) -> Judged:
    """Run an audit with random words that follow from its names."""
    words = seeded_words(audit.mechanism, audit.fault)
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
    """Run the `chosen` audits; yield a heading, and a row for each. `rows`: of the whole table."""
    yield Row(
        f"{rows} claims, family-wise error {FAMILY_ERROR:g}: each lower bound holds with confidence "
        f"{1 - error:.6f}\n" + _COLUMNS.format(*HEADINGS)
    )
    for audit in chosen:
        yield row(run_audit(audit, error, quick))


def row(found: Judged) -> Row:
    """Return the line of a finding, and its record."""
    claim, audit = found.audit.claim, found.audit
    mark = {True: "✓", False: "✗", None: " "}[found.holds]
    text = _COLUMNS.format(
        audit.mechanism,
        f"{claim.epsilon:.4g}",
        _basis(claim),
        f"{found.least:.4g}",
        f"{claim.delta:g}",
        f"{mark} {found.standing}",
        claim.released,
    )
    return Row(text, _record(found))


def _basis(claim: Claim) -> str:
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
        "claim_is": _basis(claim),
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
    """Run the `chosen` audits, which have planted faults; yield whether each is refuted, as it must."""
    for audit in chosen:
        found = run_audit(replace(audit, wanted=Standing.REFUTED), error, quick)
        how = "one run" if isinstance(audit, OneRun) else f"{found.draws} a side"
        note = f"epsilon is at least {found.least:.4g}; claim {audit.claim.epsilon:.4g}, {how}"
        refuted = [float(bool(found.holds))]
        yield figure("audit", audit.mechanism, audit.fault, "refuted", refuted, at_least=1, note=note)
