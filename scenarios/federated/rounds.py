"""The rounds of federated averaging with a server, which every engine runs.

    chosen = sample ──▶ broadcast ──▶ crew: each trains, clips, noises, sends ──▶ combine ──▶ figure

The loop and the mechanism's hooks (mechanisms.servers.server) are the same in all engines. Engines differ in
their crew: threads of one process, tasks of a cluster, or real nodes. The seed determines all randomness of a
replay. The block of a client depends only on the clients' rows, and one thread trains a block: the figures do
not depend on the number of threads or machines.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import torch
from torch.nn import functional

from mechanisms.mechanism import Protection
from mechanisms.noise.clipping import Floats, NotFinite
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import Indices, Sent, Step, Trained, Upload
from node.system.errors import UserError
from node.training.gradient_steps import PlainSteps
from node.training.trainer import Trainer
from scenarios.clients.preparation import taught_in_round
from scenarios.clients.training import steps_of, train_clients
from scenarios.clients.work import SAMPLE, ClientWork, Crew, node_rows
from scenarios.federated.measures import measures_of
from scenarios.federated.reported import server_facts, server_series
from scenarios.frame.digests import digest_of
from scenarios.study.cells import NO_EPSILON, Fact, Outcome, Room


def rounds_of(work: ClientWork, crew: Crew, words: Words, room: Room) -> Outcome:
    """Run all rounds of a cell. Raises UserError if a model is no longer finite."""
    begun, mechanism, parts = time.perf_counter(), work.mechanism, work.parts
    evaluator = Trainer(work.model, work.cell.train, node_rows(work.dataset, parts[0][:1]), 0, PlainSteps)
    rng = np.random.default_rng([SAMPLE, work.cell.seed])
    model, state, figures, exchanged = work.start, mechanism.start(), [], []
    for number in range(1, work.cell.rounds + 1):
        chosen = mechanism.sample(len(parts), rng)
        model = mechanism.broadcast(model, words)
        sent = _sent(crew, number, np.concatenate([model, mechanism.told(state)]), chosen)
        exchanged.append((len(chosen), len(sent)))
        uploads = [Upload(client, len(parts[client]), vector) for client, vector in sent.items()]
        model, state = mechanism.combine(model, state, uploads, words)
        figures.append(evaluator.evaluate(model).score)
        room.say(number, figures[-1])
    missing = sum(chosen - sent for chosen, sent in exchanged)
    counted: dict[str, Fact] = {"missing uploads": missing, "model sha256": digest_of(model)}
    measured = measures_of(work, model)
    learned = {**mechanism.figures, **mechanism.state_figures(state)}
    common = server_facts(mechanism, work.cell.rounds, work.width)
    facts = {**protection_facts(mechanism), **learned, **measured, **counted, **common}
    series = server_series(evaluator.outputs(model), work.dataset.classes, exchanged, work.width)
    return Outcome(tuple(figures), facts, time.perf_counter() - begun, series)


def _sent(crew: Crew, number: int, given: Floats, chosen: Indices) -> Mapping[int, Floats]:
    if not len(chosen):
        return {}
    with suppress(NotFinite):
        sent = crew.uploads(number, given, chosen)
        if all(np.isfinite(upload).all() for upload in sent.values()):
            return sent
    raise UserError(
        f"training diverged in round {number}: a client's model is no longer finite; lower "
        "train.learning_rate or set train.grad_clip"
    )


def train_block(
    work: ClientWork, number: int, given: Floats, members: Indices, kept: Mapping[int, Floats]
) -> list[Sent]:
    """Train the `members` (k,) as one batch; return what each sends and keeps.

    given: (d + e,), the model from which they train and what the server tells; kept: what clients remember.
    """
    mechanism, training, clients = work.mechanism, work.training, members.tolist()
    model, told = parted(work, given)
    memory = work.kept_by(clients, kept)
    parts = [work.parts[client] for client in clients]
    seeds = [work.order_seed(client, number) for client in clients]
    words = {client: work.upload_words(client, number) for client in clients}
    dataset, loss = taught_in_round(work, words), functional.cross_entropy

    def after_batch(weights: torch.Tensor, start: torch.Tensor, places: Indices) -> torch.Tensor:
        step = Step(members[places], training.learning_rate, told, memory[places])
        return mechanism.after_batch(weights, start, step)

    trained, _ = train_clients(
        model=work.model,
        start=model,
        rows_of_clients=parts,
        x=dataset.train_x,
        y=dataset.train_y,
        loss=loss,
        training=training,
        seeds=seeds,
        after_batch=after_batch,
        block=len(members),
    )
    return [
        sent_by(work, client, number, model, weights, told, own, words[client])
        for client, weights, own in zip(clients, trained, memory, strict=True)
    ]


def parted(work: ClientWork, given: Floats) -> tuple[Floats, Floats]:
    """Part `given` (d + e,) into copies of the model (d,) and of what the server tells, (e,)."""
    d = len(work.start)
    return given[:d].copy(), given[d:].copy()


def sent_by(
    work: ClientWork,
    client: int,
    number: int,
    model: Floats,
    weights: Floats,
    told: Floats,
    kept: Floats,
    words: Words,
) -> Sent:
    """What a client sends and keeps after it trained `weights` (d,) from `model` (d,)."""
    rows = len(work.parts[client])
    trained = Trained(
        client=client,
        weights=work.said(client, number, weights, model),
        start=model,
        rows=rows,
        steps=steps_of(rows, work.training),
        learning_rate=work.training.learning_rate,
        told=told,
        kept=kept,
    )
    return work.mechanism.send(trained, words)


def remembered(sent: Mapping[int, Sent], kept: dict[int, Floats]) -> dict[int, Floats]:
    """Put what each client keeps into `kept`; return the vectors that they send."""
    kept.update({client: own.kept for client, own in sent.items()})
    return {client: own.vector for client, own in sent.items()}


def in_order(chosen: Indices, blocks: Sequence[Indices], sent: Sequence[Sequence[Sent]]) -> dict[int, Sent]:
    """What clients send and keep, in the order of `chosen`; `sent` has it block by block."""
    by_client = {
        int(client): one
        for members, block in zip(blocks, sent, strict=True)
        for client, one in zip(members, block, strict=True)
    }
    return {int(client): by_client[int(client)] for client in chosen}


def protection_facts(protection: Protection) -> dict[str, Fact]:
    """The facts of an outcome about a mechanism's protection; an infinite epsilon becomes None."""
    guarantee = protection.guarantee
    if guarantee is None:
        return {**NO_EPSILON, "protects": protection.protects}
    epsilon, stated = (
        value if math.isfinite(value) else None for value in (guarantee.epsilon, guarantee.stated)
    )
    return {
        "epsilon": epsilon,
        "stated": stated,
        "delta": guarantee.delta,
        "unit": guarantee.unit.words,
        "protects": protection.protects,
        "outside": guarantee.outside,
    }
