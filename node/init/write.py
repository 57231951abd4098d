"""The last steps of `python -m node.init`: propose a task, try it out, write it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from node.cli.sigint import begun
from node.data.dataset import own_rows
from node.data.persons import equal_rows
from node.data.sources import read_source
from node.init.counts import WHY
from node.init.look import Look
from node.init.loss_choice import BALANCED, ChosenLoss, loss_for_rows
from node.init.options import USUAL_ROUNDS, InitOptions
from node.init.proposal import (
    Model,
    Privacy,
    SharedTraining,
    Training,
    propose_agreement,
    propose_model,
    propose_plain_training,
    propose_privacy,
    propose_shared,
    propose_training,
    trained_on,
)
from node.init.rate_search import searched_rate
from node.init.table_model import table_model
from node.init.task_file import MARK, Proposal, task_text
from node.init.texts import text_note
from node.runtime.contributions.learning import design, make_learning
from node.runtime.privacy.group_guarantees import check_length
from node.system.errors import ConfigError, reason, shown
from node.task.agreement_noise import give_or_take, is_drowned, noise_in_sum, noise_of
from node.task.data_schema import TableSchema
from node.task.load import read_task
from node.task.plain_defaults import optimizer_of_a_rare_class
from node.task.sections import COUNTS, Task
from node.task.shared_noise_keys import DISTRIBUTED
from node.task.table_models import SAME_MEMBERS, TREES, is_exact, opened

_LOUD = (
    "warning: with so few rows for this model, noise drowns most of what there is to learn; take a smaller "
    "model (--model linear), more rows, a larger --epsilon, or peers you may trust with --privacy none"
)
_KEPT = (
    "the noise drowns it, so learn with the public ranges as they are; else take a larger --epsilon, or "
    "leave columns out (--leave-out)"
)


def write_task(options: InitOptions, found: Look) -> list[str]:
    """Writes a task file for the inspected data; returns the lines to print. ConfigError: no file."""
    proposal = _proposal(options, found)
    task = _task(proposal)
    proposal = replace(proposal, opened=opened(task) if is_exact(task) else "")
    source = read_source(options.data, task)
    dataset = own_rows(source, task)
    if options.privacy == "none" and not proposal.opened:  # then the owner's rows may choose loss and rate
        if proposal.agreement is None and proposal.loss is None:  # else the rows of all choose the loss
            y = torch.cat([dataset.train_y, dataset.test_y]).numpy()
            proposal = _with_loss(proposal, loss_for_rows(found.schema.target, y))
        if options.search and isinstance(proposal.training, Training):
            rate = searched_rate(_task(proposal), dataset)
            training = replace(proposal.training, learning_rate=rate, searched=True)
            proposal = replace(proposal, training=training)
    task = _task(proposal)
    designed = design(task, dataset)  # a task that does not suit the data is not written
    if proposal.opened:
        made = make_learning(task, designed.model, dataset, task.task.seed, designed.mechanism)
        check_length(
            task.aggregation, max(options.peers or 0, task.aggregation.min_participants), made.offered
        )
    proposal = replace(proposal, drowned=_drowned(task, options, found))
    written = task_text(proposal)
    save(options.out, written)
    marked = sum(MARK in line for line in written.splitlines()) - 1
    equal = (
        equal_rows(source.draws, task.privacy.noises_rows)
        if found.person is None and options.person is None
        else ""
    )
    text = text_note(found.schema, options.privacy != "none") if isinstance(found.schema, TableSchema) else ""
    told = [f"warning: {said}" for said in (equal, text) if said]
    warnings = filter(None, (found.warning, *told))
    return [*found.report.lines(), "", *_summary(options, proposal, marked, warnings)]


def _drowned(task: Task, options: InitOptions, found: Look) -> str:
    """Returns why an agreement on this task would say too little, with peers like this one; empty: it would.

    Raises ConfigError if the task's mechanism does not go with an agreement.
    """
    if not options.agree or task.data.schema is None:
        return ""
    peers = max(options.peers or 0, task.aggregation.min_participants)
    doubt, rows = noise_in_sum(noise_of(task, task.data.schema), peers), found.units * peers
    if not is_drowned(doubt, rows):
        return ""
    return f"an agreement of {peers} peers with as many rows as you would count {give_or_take(rows, doubt)}"


def _proposal(options: InitOptions, found: Look) -> Proposal:
    shared, private = options.privacy == DISTRIBUTED, options.privacy != "none"
    rows = trained_on(found.units if private else found.rows)
    learned = rows * options.peers if shared and options.peers is not None else rows
    model = table_model(options, found, learned)
    model = model or propose_model(found.schema, learned, options.model, private)
    training, privacy = _learning(options, rows, model, found)
    return Proposal(
        name=options.name,
        data=found,
        model=model,
        training=training,
        privacy=privacy,
        agreement=propose_agreement(found.rows) if options.agree else None,
        loss=ChosenLoss(COUNTS, {}, WHY) if found.counts else None,
    )


def _task(proposal: Proposal) -> Task:
    """Returns the proposed task, with the place of this member's encoder, which the file does not tell."""
    task = read_task(tomllib.loads(task_text(proposal)))
    return replace(task, data=replace(task.data, encoder=proposal.data.encoder_at))


def _with_loss(proposal: Proposal, loss: ChosenLoss | None) -> Proposal:
    """Returns the proposal with this loss, and the optimiser that goes with it."""
    training = proposal.training
    if loss is not None and loss.name == BALANCED and isinstance(training, Training):
        chosen = optimizer_of_a_rare_class(proposal.model.cls, training.optimizer)
        training = replace(training, optimizer=chosen)
    return replace(proposal, loss=loss, training=training)


def _learning(
    options: InitOptions, rows: int, model: Model, found: Look
) -> tuple[Training | SharedTraining | None, Privacy | None]:
    """Returns training and privacy for `rows` of this owner's own. Raises ConfigError for rounds of sums."""
    rounds = options.rounds or USUAL_ROUNDS
    if options.privacy == DISTRIBUTED and options.peers is not None:
        return propose_shared(options.peers, rows, model, rounds, options.epsilon)
    if options.privacy == "none" and model.follows:
        if options.rounds is not None:
            raise ConfigError(
                f"--rounds {options.rounds} has no effect with {model.cls} without privacy, which needs no "
                "rounds; leave it out, or give --model network"
            )
        return None, None
    if options.privacy == "none":
        return propose_plain_training(model, found.schema, rows, rounds), None
    training = propose_training(rows, rounds, model.body)
    return training, propose_privacy(training, rows, model.size, options.epsilon, model.body)


def _summary(options: InitOptions, proposal: Proposal, marked: int, warnings: Iterable[str]) -> list[str]:
    model, privacy = proposal.model, proposal.privacy
    budget = "none"
    if privacy is not None:
        budget = f"{options.privacy}, epsilon {privacy.epsilon:g}, delta {privacy.delta:g}"
    if isinstance(proposal.training, SharedTraining):
        budget += f", if {proposal.training.honest} or more of a peer's others are honest"
    loud = privacy is not None and privacy.loud
    own = f"{options.out} --data {options.data}"
    if proposal.data.encoder_at is not None:
        own += f" --encoder {proposal.data.encoder_at}"
    following = f"next: python -m node.check {own}"
    if proposal.is_to_be_agreed:
        agree = f"python -m node.agree {own}"
        following = f"next, everybody: {agree} --peers HOST:PORT,..."
    size = f"one curve a column, at most {model.size} values" if model.follows else f"{model.size} parameters"
    size = "boosted trees" if model.cls == TREES else size
    return [
        f"model: {model.cls}, {size} ({model.why}); privacy: {budget}",
        *([f"opened: {proposal.opened}", f"members: {SAME_MEMBERS}"] if proposal.opened else []),
        f"{options.out} is written; {marked} lines are marked {MARK[2:]}: read them before you share it",
        *([_LOUD] if loud else []),
        *warnings,
        *([f"warning: {proposal.drowned}: {_KEPT}"] if proposal.drowned else []),
        following,
    ]


def save(out: Path, text: str) -> None:
    """Writes `text` to `out`; raises ConfigError if it is not a valid task or cannot be written."""
    read_task(tomllib.loads(text))
    begun()
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {shown(str(out))} cannot be written: {reason(error)}") from None
