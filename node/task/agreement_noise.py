"""How far off an agreement's sums are, and whether that leaves anything to agree on."""

from __future__ import annotations

import math

from mechanisms.mechanism import Mechanism, Unprotected
from mechanisms.record_sums import RecordSums, record_sums
from mechanisms.units import PERSON_AGREED, RECORD_AGREED
from node.system.errors import ConfigError, shown
from node.task.agreed_sums import norm
from node.task.data_schema import Schema
from node.task.sections import Task
from node.task.shared_noise_keys import DISTRIBUTED

_MOST_DOUBT = 0.05
"""The largest standard error of a sum, as a share of all rows, that leaves a mean or a count worth it.

A mean is then off by .05 of half of its range, and a category of a tenth of all rows by half of its rows.
"""


def noise_of(task: Task, schema: Schema) -> Mechanism:
    """Returns the noise for a share of the task's budget; ConfigError unless that is a row or person."""
    section, privacy = task.agreement, task.privacy
    if privacy.mechanism == "none":
        return Unprotected()
    if privacy.mechanism not in ("dp-sgd", DISTRIBUTED):
        raise ConfigError(
            f"privacy.mechanism = {shown(privacy.mechanism)} does not go with node.agree: it covers a whole "
            f"data set, and sums with noise for one row would not; allowed: 'dp-sgd', {DISTRIBUTED!r} or "
            "'none', or learn with the public ranges as they are"
        )
    return record_sums(
        epsilon=section.share * privacy.epsilon,
        delta=section.share * privacy.delta,
        releases=section.tries,
        record_norm=norm(schema),
        unit=RECORD_AGREED if task.rows_per_person is None else PERSON_AGREED,
    )


def noise_in_sum(mechanism: Mechanism, peers: int) -> float:
    """Returns the standard error, in rows, that the noise of all `peers` gives each of their sums."""
    return mechanism.noise_std * math.sqrt(peers) if isinstance(mechanism, RecordSums) else 0.0


def is_drowned(doubt: float, rows: float) -> bool:
    """Whether sums over so many rows, each with this standard error, say too little to follow them."""
    return doubt > _MOST_DOUBT * max(rows, 1.0)


def in_rows(doubt: float) -> str:
    """Returns a standard error in rows, to two digits; at least one row."""
    return f"{float(f'{max(1.0, doubt):.2g}'):,.0f}"


def give_or_take(rows: float, doubt: float) -> str:
    """Returns a count of rows and its standard error in words."""
    return f"about {max(0.0, rows):,.0f}, give or take {in_rows(doubt)}"
