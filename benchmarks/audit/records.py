"""Audits of mechanisms that noise single records once or twice: labels, sums, counts, table one, cells."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.audit.case import DELTA, EPSILON, MANY, Case, Claim, proved_claim
from benchmarks.audit.offers import EXACT, TOGETHER
from mechanisms.audits.audit import Array, Method, Pair, Release, each_row
from mechanisms.gradients.shared_noise import in_ring
from mechanisms.joint_release import JointNoise
from mechanisms.labels.embeddings import EmbeddingDP
from mechanisms.labels.flips import LabelDP, MemoisedLabelDP
from mechanisms.mechanism import CountPlan, Guarantee
from mechanisms.noise.randomness import SystemWords, Words
from mechanisms.noised_counts import CountGrid, CountNoise, count_noise
from mechanisms.record_sums import RecordSums, record_sums
from mechanisms.units import ONE_RECORD
from node.agree.survey import Sums, survey
from node.jobs.additive.private_cells import NumberValues, PrivateCells
from node.jobs.statistics.columns import Category, Number, Table
from node.jobs.statistics.private import PrivateCounts
from node.task.agreed_sums import norm
from node.task.data_schema import CategoryColumn, ClassTarget, NumberColumn, TableSchema
from node.task.sections import CELL_SUMS
from node.training.figures.tallies import Errors
from protocol.wire.limits import MAX_MEMBERS

COORDINATES = 4
ONE_LABEL = "the label of one example; neighbours: replace one; pure, no norm"
ONE_EMBEDDING = "the embedding of one example; neighbours: replace one by any; pure, no norm"
RESPONSE = "Ghazi et al. 2021, Algorithm 1"
SIGNS = "Wang et al. 2017, section 4.3; Dwork & Roth 2014, Corollary 3.15"


def record_cases() -> list[Case]:
    """Return the cases of all mechanisms, mechanism by mechanism."""
    return [
        *label_cases(),
        *embedding_cases(),
        *agreement_cases(),
        *count_cases(),
        *table_one_cases(),
        *cell_cases(),
    ]


# -- randomised responses ----------------------------------------------------------------------------


def labels(epsilon: float, draws: int = 1) -> Release:
    """Return a release that draws each label anew `draws` times; a row, a number or one-hot, is one run."""
    return lambda inputs, words: np.hstack([LabelDP(epsilon, words)(inputs) for _ in range(draws)])


def kept_labels(epsilon: float) -> Release:
    """Return a release of binary labels that are drawn once and read twice."""

    def release(inputs: Array, words: Words) -> Array:
        kept = MemoisedLabelDP.draw(LabelDP(epsilon, words), inputs)
        return np.hstack([kept[:], kept[:]])

    return release


def embeddings(epsilon: float) -> Release:
    """Return a release of whole embeddings; a row is one run."""
    return lambda inputs, words: EmbeddingDP(epsilon, words)(inputs)


def label_cases() -> list[Case]:
    """Randomised response; neighbours: the label 0 or 1, the first or the second of ten classes.

    The score counts how often the label of x1 was released. A label that is drawn twice costs two draws; one
    that is drawn once and read twice costs one.
    """
    drawn = LabelDP(EPSILON)
    binary = Case(
        mechanism="label DP, binary",
        release=labels(EPSILON),
        pair=Pair.of(np.zeros(1), np.ones(1)),
        claim=Claim(drawn.total_epsilon(1), 0.0, ONE_LABEL, "a label, drawn once", RESPONSE),
        subject=drawn,
        method=Method.RATIO,
        quick_trials=MANY,
    )
    classes = np.eye(10)
    ten = replace(
        binary,
        mechanism="label DP, 10 classes",
        release=labels(EPSILON),
        pair=Pair.of(classes[0], classes[1]),
        score=lambda released: released[:, 1],
    )
    half = LabelDP(EPSILON / 2)
    twice = replace(
        binary,
        mechanism="label DP, drawn twice",
        release=labels(half.epsilon, draws=2),
        claim=Claim(
            half.total_epsilon(2),
            0.0,
            ONE_LABEL,
            "a label, drawn twice",
            f"{RESPONSE}; Dwork & Roth 2014, Corollary 3.15",
        ),
        subject=half,
        score=lambda released: released.sum(axis=1),
    )
    kept = replace(
        binary,
        mechanism="label DP, read twice",
        release=kept_labels(EPSILON),
        claim=Claim(drawn.epsilon, 0.0, ONE_LABEL, "a label, drawn once, read twice", RESPONSE),
        subject=MemoisedLabelDP.draw(drawn, np.zeros(1)),
        score=lambda released: released.sum(axis=1),
    )
    return [
        binary,
        replace(binary, fault="epsilon doubled", release=labels(2 * EPSILON)),
        ten,
        replace(ten, fault="epsilon doubled", release=labels(2 * EPSILON)),
        twice,
        kept,
        replace(kept, fault="drawn twice, counted once", release=labels(EPSILON, draws=2)),
    ]


def embedding_cases() -> list[Case]:
    """Neighbours: two embeddings that differ in every sign. d coordinates cost d epsilon / 2 = EPSILON."""
    mechanism = EmbeddingDP(2 * EPSILON / COORDINATES)
    epsilon = 2 * mechanism.coordinate_epsilon
    claim = Claim(mechanism.total_epsilon(COORDINATES), 0.0, ONE_EMBEDDING, "all signs, once", SIGNS)
    sound = Case(
        mechanism="embedding DP",
        release=embeddings(epsilon),
        pair=Pair.of(np.full(COORDINATES, -1.0), np.ones(COORDINATES)),
        claim=claim,
        subject=mechanism,
        method=Method.RATIO,
        score=lambda released: released.sum(axis=1),
        quick_trials=MANY,
    )
    return [
        sound,
        replace(sound, fault="epsilon doubled", release=embeddings(2 * epsilon)),
        replace(sound, fault="the cost of two coordinates", claim=replace(claim, epsilon=epsilon)),
    ]


# -- the sums of an agreement --------------------------------------------------------------------------

_NUMBERS = tuple(
    NumberColumn(name=name, kind="number", mean=0.0, std=1.0, low=-1.0, high=1.0) for name in ("a", "b")
)
SCHEMA = TableSchema(
    kind="table",
    target=ClassTarget(kind="classes", values=("no", "yes"), name="c"),
    columns=(*_NUMBERS, CategoryColumn(name="d", kind="category", values=("x", "y"))),
)
FARTHEST = ("7", "7", "x", "yes")
"""A record beyond the ranges. It is clipped to their upper ends, and moves nine sums by 1 each."""
OTHERS = (("-1", "0.5", "y", "no"), ("0", "0", "y", "yes"))


def agreement_cases() -> list[Case]:
    """The noised counts and sums of `node.agree`; neighbours: OTHERS with the FARTHEST record, or without.

    A node's own code sums up the tables: so the audit would see a record that moves the sums farther than the
    norm for which the noise is.
    """
    mechanism = record_sums(EPSILON, DELTA, releases=1, record_norm=norm(SCHEMA))
    for_one_sum = replace(mechanism, noise_multiplier=mechanism.noise_multiplier / norm(SCHEMA))
    sound = Case(
        mechanism="record-sums of node.agree",
        release=noised_sums(mechanism),
        pair=record_pair(mechanism),
        claim=proved_claim(mechanism.guarantee, "all counts and sums of an agreement, once", EXACT),
        subject=mechanism,
    )
    faulty = replace(
        sound,
        fault="noise for one sum alone",
        release=noised_sums(for_one_sum),
        pair=record_pair(for_one_sum),
    )
    return [sound, faulty]


def record_pair(mechanism: RecordSums) -> Pair:
    """Return the sums without and with the FARTHEST record, in the mechanism's units and as numbers."""
    unit = mechanism.unit
    without, joined = (survey_rows(rows, unit).astype(np.float64) for rows in (OTHERS, (*OTHERS, FARTHEST)))
    return Pair(without, joined, without * unit, joined * unit)


def survey_rows(rows: Sequence[Sequence[str]], unit: float) -> Sums:
    """Return the sums (d,) of a table with these rows, in whole `unit`s, by a node's own code."""
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("a", "b", "d", "c"), *rows])
        return survey(path, SCHEMA, unit, most=100)


def noised_sums(mechanism: RecordSums) -> Release:
    """Return a release of noised sums (d,); a row is one run."""
    return each_row(lambda sums, words: mechanism.release(np.rint(sums).astype(np.int64), words))


# -- counts for a metric of all rows -------------------------------------------------------------------

HONEST = 2
LOUDEST = (torch.tensor([-1e6]), torch.tensor([1e6]))
"""A row whose target and error are both cut: it moves all five sums of `Errors` by 1 each."""


def count_cases() -> list[Case]:
    """The noised sums of errors for a metric of all rows, of H + 1 members; neighbours: the LOUDEST row.

    A node's own code counts them: so the audit would see a row that is not cut.
    """
    noise = count_noise(CountPlan(share=1.0, releases=1), EPSILON, DELTA, HONEST)
    sound = Case(
        mechanism="counts for a metric of all rows",
        release=noised_counts(noise, HONEST + 1),
        pair=row_pair(noise),
        claim=Claim(EPSILON, DELTA, ONE_RECORD.words, "the counts of one sum, of the honest members", EXACT),
    )
    faulty = replace(sound, fault="two of three add no noise", release=noised_counts(noise, 1))
    return [sound, faulty]


def row_pair(noise: CountNoise) -> Pair:
    """Return the sums without a row and with the LOUDEST one, in numbers of rows."""
    tally, nobody = Errors(1.0, noised=True), (torch.empty(0), torch.empty(0))
    without, joined = (tally.counted(*rows) for rows in (nobody, LOUDEST))
    return Pair(without, joined, without, joined)


def noised_counts(noise: CountNoise, members: int) -> Release:
    """Return a release of counts (d,), with the shares of noise of so many members; a row is one run."""
    grid = CountGrid(noise, Errors.sensitivity, MAX_MEMBERS)

    def one(counts: Array, words: Words) -> Array:
        nothing = np.zeros_like(counts)
        shares = (grid.add_noise(counts if member == 0 else nothing, words) for member in range(members))
        return sum(shares, start=nothing) * grid.unit

    return each_row(one)


# -- table one under privacy -----------------------------------------------------------------------------

TABLE_ONE = (Number("age", 0.0, 100.0), Category("ward", ("east", "west")))
END: Table = {"age": np.array([1e9]), "ward": np.ones(1), "arm": np.ones(1)}
"""A row at the end of every range: its vector is as long as any row's."""


def table_one_cases() -> list[Case]:
    """One noised table one by group, of H + 1 members; neighbours: the END row, or none.

    A node's own code counts the rows: so the audit would see a row that moves the sums farther than Delta.
    """
    noise = count_noise(CountPlan(share=1.0, releases=1), EPSILON, DELTA, HONEST)
    mechanism = JointNoise(noise, Guarantee(ONE_RECORD, EPSILON, DELTA, EPSILON, honest=HONEST))
    counts = counts_with(noise)
    joined = counts.row_units(END)
    without, unit = np.zeros_like(joined), counts.release.unit
    sound = Case(
        mechanism="table one of node.stats",
        release=noised_table_one(counts, HONEST + 1),
        pair=Pair(without, joined, without * unit, joined * unit),
        claim=proved_claim(mechanism.guarantee, "all counts and moments, once, of the honest", EXACT),
        subject=mechanism,
    )
    of_one = replace(noise, noise_multiplier=noise.noise_multiplier * max(counts.release.scales))
    faults = {
        "noise for one column alone": noised_table_one(counts_with(of_one), HONEST + 1),
        "two of three add no noise": noised_table_one(counts, 1),
    }
    return [sound, *(replace(sound, fault=fault, release=release) for fault, release in faults.items())]


def counts_with(noise: CountNoise) -> PrivateCounts:
    """Return the counts by group with this noise."""
    return PrivateCounts.of(TABLE_ONE, Category("arm", ("a", "b")), noise, 1_000, MAX_MEMBERS)


def noised_table_one(counts: PrivateCounts, members: int) -> Release:
    """Return a release of units (d,), with the shares of noise of so many members; a row is one run."""
    release = counts.release

    def one(units: Array, words: Words) -> Array:
        nothing = np.zeros_like(units)
        offers = (release.add_noise(units if member == 0 else nothing, words) for member in range(members))
        return sum(offers, start=nothing) * release.unit

    return each_row(one)


# -- the cells of a private additive model ---------------------------------------------------------------

RANGES = ((0.0, 64.0), (0.0, 64.0))
HEAVY = 300
"""So many rows of others, all like the one in question, have its piece cut again for sure."""
_CELL_TRIALS = 20_000


def cell_cases() -> list[Case]:
    """Both noised histograms of H + 1 members; neighbours: with a row or without it, beside others.

    All rows are alike. The score adds the counts of their pieces in both histograms. For the fault of the cut
    the others are just too few to have their piece cut again without the row.
    """
    noise = count_noise(CountPlan(share=1.0, releases=CELL_SUMS), EPSILON, DELTA, HONEST)
    least = cells_of(0, noise, SystemWords()).least_rows(HONEST + 1)
    sound = Case(
        mechanism="cells of the additive model",
        release=noised_cells(noise, HEAVY),
        pair=Pair.of(np.zeros(1), np.ones(1)),
        claim=Claim(EPSILON, DELTA, ONE_RECORD.words, "both histograms, of the honest members", TOGETHER),
        trials=_CELL_TRIALS,
    )
    half = replace(noise, noise_multiplier=noise.noise_multiplier / 2)
    return [
        sound,
        replace(sound, fault="half the noise", release=noised_cells(half, HEAVY)),
        replace(
            sound,
            fault="the second cut by counts that were not released",
            release=noised_cells(noise, least, by_released=False),
        ),
    ]


def cells_of(rows: int, noise: CountNoise, words: Words) -> PrivateCells:
    """Return the job of a member with so many rows."""
    values = np.full((rows, len(RANGES)), 40.5, np.float32)
    return PrivateCells(RANGES, NumberValues(values), noise, MAX_MEMBERS, 16, words)


def noised_cells(noise: CountNoise, others: int, by_released: bool = True) -> Release:
    """Return a release of the score for 0 or 1 row; `by_released`: what cuts the second histogram.

    A run has H + 1 members, of whom one has all rows.
    """

    def one(own: Array, words: Words) -> Array:
        members = [cells_of(rows, noise, words) for rows in (others + int(own[0]), *(0,) * HONEST)]
        subject, base, score = members[0], members[0].initial(), 0.0
        keys = tuple(bytes([number]) for number in range(len(members)))
        for generation in range(CELL_SUMS):
            offers = [one.contribution(base, generation).words for one in members]
            released = sum(offers, start=np.zeros_like(offers[0]))
            there = subject.counted(base, generation)
            alone = cells_of(1, noise, words).counted(base, generation)
            score += float(released.view(np.int32)[alone > 0].sum()) * subject.grid.unit
            cut_by = released if by_released else in_ring(np.rint(there / subject.grid.unit))
            base = subject.following(base, generation, cut_by, keys)
        return np.array([score])

    return each_row(one)
