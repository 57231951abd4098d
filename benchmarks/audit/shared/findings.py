"""The figures of all audits of shared noise: without a fault, and with each planted fault."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.audit.case import DELTA, EPSILON, seeded_words
from benchmarks.audit.shared import sums, swarm
from benchmarks.audit.shared.faults import Fault, faults, no_fault, tensor_wise_fault
from benchmarks.spec import Figure, figure
from mechanisms.audits import one_run
from mechanisms.audits.residuals import Finding, finding

ALPHA = 1e-3
"""How often a residual test may raise a false alarm. It is powerful enough for so small a rate."""
_ALPHA_OF_BOUNDS = 0.05
_REFUTED_AT_LEAST = 0.95
_REPEATS, _LOUD_REPEATS, _CANARY_REPEATS = 5, 5, 5
_GROSS = {"only a seventh of the variance": 7**-0.5, "a quarter of the noise": 0.25}
CROWD = swarm.Crowd(members=10, honest=7, steps=18)
QUICK = swarm.Crowd(members=5, honest=4, steps=4, sizes=(64, 16, 10))

NAME = "distributed-dp-sgd"
RESIDUALS, LOUD, SHIFT, ONE_RUN, SWARM = (
    f"{NAME}, {part}" for part in ("residuals", "loud rows", "shift of a record", "one run", "real nodes")
)
LOUD_SWARM = f"{SWARM}, loud rows"


def residual_findings(quick: bool) -> Iterator[Figure]:
    """Yield the residual tests of sums in this process, without a fault and with each."""
    of, repeats = sums.digits(), 1 if quick else _REPEATS
    for fault in (no_fault(sums.HONEST), *faults(sums.HONEST, sums.MEMBERS)):
        found = [
            finding(sums.residuals(of, fault, seeded_words(RESIDUALS, fault.name, repeat)), ALPHA)
            for repeat in range(repeats)
        ]
        yield _figure(RESIDUALS, fault, found, sums.STEPS * of.rule.size)


def swarm_findings(quick: bool) -> Iterator[Figure]:
    """Yield the residual tests of real swarms, then with loud rows; quickly: small ones, fewer faults."""
    crowd = QUICK if quick else CROWD
    planted = faults(crowd.honest, crowd.members)
    for fault in (no_fault(crowd.honest), *(planted[4:6] if quick else planted)):
        yield _of_nodes(SWARM, crowd, fault)
    loud = replace(crowd, loud=sums.LOUD, steps=sums.LOUD_STEPS)
    for fault in (no_fault(crowd.honest), tensor_wise_fault(crowd.honest)):
        yield _of_nodes(LOUD_SWARM, loud, fault)


def _of_nodes(name: str, crowd: swarm.Crowd, fault: Fault) -> Figure:
    left = swarm.residuals(crowd, fault, seed=zlib.crc32(fault.name.encode()))
    how = f"; {crowd.members} real nodes, {crowd.members - crowd.honest} collude"
    return _figure(name, fault, [finding(left, ALPHA)], left.left.size, how)


def _figure(mechanism: str, fault: Fault, found: list[Finding], values: int, how: str = "") -> Figure:
    """Return how often a test refutes the claim: never, or with a fault nearly always. `values`: T d."""
    refuted = [float(each.is_refuted) for each in found]
    share = [sum(refuted) / len(refuted)]
    by = sorted({name for each in found for name in each.refuted_by})
    statistics = ", ".join(f"{each.name} {each.value:.4g}" for each in found[0].statistics)
    note = (
        f"{sum(refuted):.0f}/{len(refuted)}{' by ' + ', '.join(by) if by else ''}; the first: {statistics}; "
        f"{values} values{how}"
    )
    if not fault.name:
        return figure("audit", mechanism, "false alarms", "refuted", share, at_most=0.0, note=note)
    return figure("audit", mechanism, fault.name, "refuted", share, at_least=_REFUTED_AT_LEAST, note=note)


def loud_findings(quick: bool) -> Iterator[Figure]:
    """Yield the residual tests with planted loud rows, towards what these rows should add."""
    of = sums.digits(sums.LOUD_STEPS)
    for fault in (no_fault(sums.HONEST), tensor_wise_fault(sums.HONEST)):
        found = [
            finding(sums.loud_residuals(of, sums.MAKERS[fault.name], repeat), ALPHA)
            for repeat in range(1 if quick else _LOUD_REPEATS)
        ]
        how = f"; {sums.LOUD} loud rows a member"
        yield _figure(LOUD, fault, found, sums.LOUD_STEPS * of.rule.size, how)


def shift_findings(quick: bool) -> Iterator[Figure]:
    """Yield how many records move the words farther than C / g. This is exact: there is no error rate."""
    of = sums.digits(1)
    for name in ("", "no room for the rounding"):
        found = sums.shifts(of, sums.MAKERS[name], sums.RECORDS // (4 if quick else 1))
        beyond = sum(not each.is_allowed for each in found)
        most = max(each.share for each in found)
        note = f"{beyond} of {len(found)} records; the farthest is {most:.9f} C / g; d = {of.rule.size}"
        if name:
            yield figure("audit", SHIFT, name, "refuted", [float(beyond > 0)], at_least=1.0, note=note)
        else:
            yield figure("audit", SHIFT, "records beyond C / g", "", [float(beyond)], at_most=0.0, note=note)


def one_run_findings(quick: bool) -> Iterator[Figure]:
    """Yield the bounds from one sum of canaries, which finds only gross faults."""
    for name, share in {"": 1.0, **_GROSS}.items():
        subject = sums.CanarySum(share)
        bounds = [
            one_run.epsilon_lower_bound(
                subject.guesses(seeded_words(ONE_RUN, name, repeat)), DELTA, _ALPHA_OF_BOUNDS
            )
            for repeat in range(1 if quick else _CANARY_REPEATS)
        ]
        refuted = sum(bound > EPSILON for bound in bounds)
        note = (
            f"claim {EPSILON:g} refuted {refuted}/{len(bounds)}; {sums.CANARIES} canaries, "
            f"{2 * sums.GUESSES} guesses"
        )
        if not name:
            yield figure("audit", ONE_RUN, "epsilon is at least", "", bounds, EPSILON, note)
        else:
            note = f"epsilon is at least {np.median(bounds):.4g}; {note}"
            share_refuted = [refuted / len(bounds)]
            yield figure(
                "audit", ONE_RUN, name, "refuted", share_refuted, note=note, at_least=_REFUTED_AT_LEAST
            )


SHARED: Mapping[str, Callable[[bool], Iterator[Figure]]] = {
    RESIDUALS: residual_findings,
    LOUD: loud_findings,
    SHIFT: shift_findings,
    ONE_RUN: one_run_findings,
    SWARM: swarm_findings,
}
"""The audits of shared noise by name. The argument: whether quickly."""
