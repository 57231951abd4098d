"""Checks combinations of a task's values that contradict each other although each is valid by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from node.system.errors import ConfigError, shown
from node.task.data_schema import NumberTarget, TableSchema
from node.task.round_length import check_length
from node.task.sections import COUNTED_WITH_NOISE, COUNTS, EVERY, METRIC_SHARE, MODEL_CLASS
from node.task.shared_noise_keys import is_distributed
from node.task.table_models import is_exact
from protocol.vectors.ring import WIDE

if TYPE_CHECKING:
    from node.task.sections import AggregationSection, DataSection, PrivacySection, Task


def check_combinations(task: Task, table: Mapping[str, object]) -> None:
    """Raises ConfigError for contradictory values; `table` is the TOML from which `task` was read."""
    for name, value in (("target", task.data.target), ("features", task.data.features)):
        if task.data.schema is not None and value is not None:
            raise ConfigError(
                f"data.{name} = {shown(value)} is refused beside data.schema, which says what target and "
                "features are; leave it out"
            )
    check_cells(task.data)
    _check_person(task)
    if "model" in table or "statistics" not in table:
        _check_model(task)
    if task.data.target is not None and task.data.target in (task.data.features or ()):
        raise ConfigError(
            f"data.target = {shown(task.data.target)} stands in data.features too; "
            "allowed: a column that the model does not see"
        )
    _check_training(task)
    check_length(task, table.get("train"))
    _check_privacy(table.get("privacy", {}))
    _check_protocol(task.aggregation)
    _check_bits(task)
    _check_weighting(task)
    _check_swarm_metric(task)
    # What an import path names is asked once it is made (node.runtime.privacy.mechanism_checks).
    if task.privacy.public_radius and not task.privacy.shows_radius and ":" not in task.privacy.mechanism:
        raise radius_is_not_shown()
    if task.privacy.shows_radius and not task.privacy.public_radius:  # which no noise covers
        raise radius_is_shown(task.privacy)


def _check_model(task: Task) -> None:
    """Requires a class or a learner, and refuses what only a torch module has beside a learner."""
    model, refused = task.model, "is refused beside model.learner"
    if model.learner is None:
        if not model.cls:
            raise ConfigError(f"model.class is missing; allowed: {MODEL_CLASS}")
        return
    if model.cls:
        raise ConfigError(f"model.class = {shown(model.cls)} {refused}, which takes its place; leave one out")
    if model.body is not None:
        raise ConfigError(
            f"model.body = {shown(model.body)} {refused}, of which no parts are known; leave it out"
        )
    if task.privacy.mechanism in COUNTED_WITH_NOISE:
        raise ConfigError(no_row_gradients(task.privacy.mechanism))
    if task.aggregation.swarm_metric not in ("none", "sums"):
        raise ConfigError(
            f"aggregation.swarm_metric = {task.aggregation.swarm_metric!r} {refused}, which does not say "
            "what it answers to each row; allowed: 'none', or 'sums' of what it counts itself"
        )


def no_row_gradients(mechanism: str) -> str:
    """Returns the refusal of a mechanism that needs the gradients of single rows."""
    return (
        f"privacy.mechanism = {shown(mechanism)} is refused beside model.learner: it needs the gradients of "
        "single rows, which only a torch model gives; allowed: 'none', 'ldp', 'aldp'"
    )


def _check_training(task: Task) -> None:
    """Refuses arguments that would have no effect or the wrong one."""
    section = task.train
    if ":" in section.optimizer and section.weight_decay:
        raise ConfigError(
            f"train.weight_decay = {section.weight_decay:g} has no effect with train.optimizer = "
            f"{shown(section.optimizer)}; set train.optimizer_args.weight_decay, or leave it out"
        )
    if section.loss == "auto" and section.loss_args:
        raise ConfigError(
            f"train.loss_args = {shown(dict(section.loss_args))} are refused with train.loss = 'auto'; name "
            "the loss that they are for"
        )
    target = None if task.data.schema is None else task.data.schema.target
    if section.counts and isinstance(target, NumberTarget) and target.mean:  # shifted, they are no counts
        raise ConfigError(
            f"data.schema.target.mean = {target.mean:g} is refused with train.loss = {COUNTS!r}: counts "
            "begin at 0; allowed: 0, with std as their size, as node.init --target-kind count writes it"
        )
    if task.privacy.mechanism in ("dp-sgd", "distributed-dp-sgd"):
        refuse_weights_of_rows(task)


def refuse_weights_of_rows(task: Task) -> None:
    """Refuses weights of classes where each row's gradient is computed by itself."""
    if task.train.loss == "cross-entropy" and "weight" in task.train.loss_args:
        raise ConfigError(
            f"train.loss_args.weight is refused with privacy.mechanism = {task.privacy.mechanism!r}: the "
            "mean over one row divides its weight out again; leave it out, or name a train.loss of your own"
        )


def check_cells(section: DataSection) -> None:
    """Refuses cells that have no effect, and one mark with two meanings."""
    cells, schema = section.cells, section.own_schema
    if cells is None:
        return
    if not isinstance(schema, TableSchema):
        raise ConfigError(
            f"data.cells = {shown(cells.given)} has no effect: the task has no data.schema of a table, whose "
            "dialect it would replace; leave it out"
        )
    if schema.written.decimal == schema.written.thousands:
        raise ConfigError(
            f"data.cells = {shown(cells.given)} is refused: the {schema.written.decimal} would be for "
            "decimals and for thousands; say both, such as decimal=comma,thousands=point, or thousands=none"
        )


def _check_person(task: Task) -> None:
    """Refuses a column of persons that is learned from, and keys that have no effect without one."""
    section, most = task.data, task.privacy.rows_per_person
    if section.person is None and section.blank_person != "refuse":
        raise ConfigError(
            f"data.blank_person = {shown(section.blank_person)} has no effect without data.person; set that "
            "or leave it out"
        )
    if most is not None and task.rows_per_person is None:
        raise ConfigError(
            f"privacy.rows_per_person = {most} has no effect without data.person and a privacy.mechanism "
            "that clips gradients of rows, such as 'dp-sgd'; set both or leave it out"
        )
    learned = {section.target, *(section.features or ())}
    if isinstance(section.schema, TableSchema):
        learned |= {section.schema.target.name, *(column.name for column in section.schema.columns)}
    if section.person is not None and section.person in learned:
        raise ConfigError(
            f"data.person = {shown(section.person)} is refused: it is learned from as well, which would tell "
            "whose rows they are; allowed: a column that is neither target nor feature"
        )


def _check_privacy(privacy: object) -> None:
    if isinstance(privacy, dict) and privacy and "mechanism" not in privacy:
        name, value = next(iter(privacy.items()))
        raise ConfigError(
            f"privacy.{name} = {shown(value)} has no effect without privacy.mechanism; "
            "name one ('ldp', 'aldp', 'dp-sgd' or 'distributed-dp-sgd') or leave it out"
        )


def _check_protocol(section: AggregationSection) -> None:
    """Refuses other shares than seeds for masked sums, dropouts for additive ones, and too many liars."""
    if section.protocol == "masked" and section.shares != "seed":
        raise ConfigError(
            f"aggregation.shares = {section.shares!r} is refused with aggregation.protocol = 'masked', which "
            "has seeds alone (a group of 3 shares them additively); set aggregation.protocol=additive"
        )
    if section.protocol == "additive" and section.dropouts:
        raise ConfigError(
            f"aggregation.dropouts = {section.dropouts} is refused with aggregation.protocol = 'additive': "
            "one silent peer ends its round; allowed: 0, or aggregation.protocol=masked"
        )
    if section.liars is not None and section.liars >= section.min_participants:
        raise ConfigError(
            f"aggregation.liars = {section.liars} is refused with aggregation.min_participants = "
            f"{section.min_participants}: of so few electors no vote could decide; allowed: fewer than "
            "aggregation.min_participants"
        )


def _check_bits(task: Task) -> None:
    """Refuses short words where a sum has whole numbers or exact counts, or is one of shares alone."""
    section, mechanism = task.aggregation, task.privacy.mechanism
    if section.bits == WIDE.bits:
        return
    reasons = {
        "aggregation.protocol = 'additive'": section.protocol == "additive"
        and "shares have words of 32 bits; set aggregation.protocol=masked",
        "aggregation.weighting = 'samples'": section.weighting != "uniform"
        and "a weight needs 32 bits; set aggregation.weighting=uniform",
        f"aggregation.swarm_metric = {section.swarm_metric!r}": section.swarm_metric != "none"
        and "counts need 32 bits; set aggregation.swarm_metric=none",
        f"privacy.mechanism = {mechanism!r}": is_distributed(task)
        and "shared noise needs 32 bits, as what wraps around in 16 would cost more epsilon",
        f"model.class = {task.model.cls!r}": (is_exact(task) or not task.learns)
        and "its sums are of whole numbers, which need 32 bits",
    }
    for name, why in reasons.items():
        if why:
            raise ConfigError(f"aggregation.bits = {section.bits} is refused with {name}: {why}; allowed: 32")


def _check_weighting(task: Task) -> None:
    """Requires the keys of weighting = "samples" with it, and refuses them without it.

    Weights are declared public if there is a mechanism, as no noise covers them.
    """
    section, mechanism = task.aggregation, task.privacy.mechanism
    if section.weighting == "uniform":
        _refuse_without_weights("sample_cap", section.sample_cap)
        _refuse_without_weights("public_weights", section.public_weights or None)
    elif section.sample_cap is None:
        raise ConfigError(
            "aggregation.sample_cap is missing, which aggregation.weighting = 'samples' needs: a peer with "
            "that many rows or more has weight 1; allowed: a whole number from 1 to 1000000"
        )
    elif section.shares == "float":
        raise ConfigError(
            "aggregation.weighting = 'samples' is refused with aggregation.shares = 'float', whose error is "
            "larger than small weights; allowed: aggregation.shares=seed or ring"
        )
    if section.weighting == "samples" and mechanism != "none" and not section.public_weights:
        raise ConfigError(
            f"aggregation.weighting = 'samples' is refused with privacy.mechanism = {shown(mechanism)}: no "
            "noise covers the number of your rows; allowed: aggregation.public_weights=true, which declares "
            "it public, or aggregation.weighting=uniform"
        )


def _refuse_without_weights(name: str, value: object) -> None:
    if value is not None:
        raise ConfigError(
            f"aggregation.{name} = {shown(value)} has no effect without aggregation.weighting = 'samples'; "
            "set that or leave it out"
        )


def _check_swarm_metric(task: Task) -> None:
    """Refuses counts of rows that noise cannot cover, counts that are not exact, and keys of nothing."""
    section, mechanism = task.aggregation, task.privacy.mechanism
    if not task.counts_with_noise and task.privacy.metric_share != METRIC_SHARE:
        raise ConfigError(
            f"privacy.metric_share = {task.privacy.metric_share:g} has no effect without "
            "aggregation.swarm_metric; set that or leave it out"
        )
    if section.swarm_metric == "none":
        if section.swarm_metric_every != EVERY:  # a model file has all keys, set or not
            raise ConfigError(
                f"aggregation.swarm_metric_every = {section.swarm_metric_every} has no effect without "
                "aggregation.swarm_metric; set that or leave it out"
            )
        return
    if is_exact(task) and section.swarm_metric_every != EVERY:
        raise ConfigError(
            f"aggregation.swarm_metric_every = {section.swarm_metric_every} has no effect with model.class = "
            f"{shown(task.model.cls)} without privacy, whose last model alone is measured; leave it out"
        )
    here = f"aggregation.swarm_metric = {section.swarm_metric!r} is refused with "
    if mechanism != "none" and not task.counts_with_noise:
        allowed = ", ".join(map(repr, ("none", *COUNTED_WITH_NOISE)))
        raise ConfigError(
            f"{here}privacy.mechanism = {shown(mechanism)}: no noise covers the counts of your rows; allowed "
            f"with {allowed}; set aggregation.swarm_metric=none"
        )
    if section.shares == "float":
        raise ConfigError(
            f"{here}aggregation.shares = 'float', whose sums are not exact; allowed: aggregation.shares=seed "
            "or ring"
        )


def radius_is_not_shown() -> ConfigError:
    """Returns the refusal to declare a radius public that nothing shows."""
    return ConfigError(
        "privacy.public_radius = true has no effect without privacy.mechanism = 'aldp' and "
        "privacy.window_source = 'raw'; set both, or leave it out"
    )


def radius_is_shown(section: PrivacySection) -> ConfigError:
    """Returns the refusal of a radius that follows raw norms and is not declared public."""
    exact = section.calibration == "exact"
    covered = "privacy.window_source=aggregate" if exact else "privacy.mechanism=ldp"
    return ConfigError(
        f"privacy.window_source = 'raw' is refused with privacy.mechanism = {shown(section.mechanism)}"
        f"{_CALIBRATED[exact]}: the noise level shows the norms of your updates, and no epsilon covers them; "
        f"allowed: privacy.public_radius=true, which declares them public, or {covered}, which is covered"
    )


_CALIBRATED = {True: "", False: " and privacy.calibration = 'linear-classic'"}
