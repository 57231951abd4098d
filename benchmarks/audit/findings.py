"""All findings: the table of claims, planted faults, audits of whole files and of shared noise."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch

from benchmarks.audit import CLAIMS, FAULTS, FILES, SHARED_NOISE
from benchmarks.audit.files import EPSILONS, FILE_AUDITS
from benchmarks.audit.shared.findings import SHARED
from benchmarks.audit.table import FAMILY_ERROR, Audit, audits, fault_figures, row_level, table
from benchmarks.spec import Figure, Row
from mechanisms.audits.audit import level
from node.system.errors import ConfigError


def findings(only: str | None, parts: Collection[str], quick: bool) -> Iterator[Figure | Row]:
    """Return the findings of `parts` on the mechanisms with `only` in their names.

    Raises ConfigError if there is no such mechanism.
    """
    everything = audits()
    names = [*dict.fromkeys(audit.mechanism for audit in everything), *FILE_AUDITS, *SHARED]
    chosen = [name for name in names if only is None or only in name]
    if not chosen:
        raise ConfigError(f"--only {only}: allowed is a part of a name: {'; '.join(names)}")
    return _findings(everything, chosen, parts, quick)


def _findings(
    everything: list[Audit], names: Collection[str], parts: Collection[str], quick: bool
) -> Iterator[Figure | Row]:
    error = row_level(everything)
    claims = [audit for audit in everything if not audit.fault]
    chosen = [audit for audit in everything if audit.mechanism in names]
    of_claims = [audit for audit in chosen if not audit.fault]
    of_faults = [audit for audit in chosen if audit.fault]
    if CLAIMS in parts and of_claims:
        yield from table(of_claims, error, len(claims), quick)
    if FAULTS in parts:
        yield from fault_figures(of_faults, error, quick)
    if FILES in parts:
        yield from _file_findings([name for name in FILE_AUDITS if name in names], quick)
    if SHARED_NOISE in parts:
        for name in SHARED:
            if name in names:
                yield from SHARED[name](quick)


def _file_findings(names: Collection[str], quick: bool) -> Iterator[Figure | Row]:
    """Yield the findings on whole files, which are a table of their own, with an error of its own."""
    claims = len(FILE_AUDITS) * len(EPSILONS)
    error = level(FAMILY_ERROR, claims)
    torch.set_num_threads(1)  # the rows are few
    for name in names:
        found = [case for epsilon in EPSILONS for case in FILE_AUDITS[name](epsilon)]
        yield from table([case for case in found if not case.fault], error, claims, quick)
        yield from fault_figures([case for case in found if case.fault], error, quick)
