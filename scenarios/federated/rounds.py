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
from mechanisms.servers.server import Indices, Step
from node.errors import UserError
from node.training.trainer import Trainer
from scenarios.clients.training import train_clients
from scenarios.clients.work import SAMPLE, ClientWork, Crew, node_rows
from scenarios.federated.measures import measures_of
from scenarios.federated.reported import server_facts, server_series
from scenarios.frame.digests import digest_of
from scenarios.study.cells import Fact, Outcome, Room


def rounds_of(work: ClientWork, crew: Crew, words: Words, room: Room) -> Outcome:
    """Run all rounds of a cell. Raises UserError if a model is no longer finite."""
    begun, mechanism, parts = time.perf_counter(), work.mechanism, work.parts
    judge = Trainer(work.model, work.cell.train, node_rows(work.dataset, parts[0][:1]), 0, None, words)
    rng = np.random.default_rng([SAMPLE, work.cell.seed])
    model, figures, exchanged = work.start, [], []
    for number in range(1, work.cell.rounds + 1):
        chosen = mechanism.sample(len(parts), rng)
        model = mechanism.broadcast(model, words)
        sent = _sent(crew, number, model, chosen)
        exchanged.append((len(chosen), len(sent)))
        rows = [len(parts[client]) for client in sent]
        model = mechanism.combine(model, list(sent.values()), rows, words)
        figures.append(judge.evaluate(model).score)
        room.say(number, figures[-1])
    missing = sum(chosen - sent for chosen, sent in exchanged)
    counted: dict[str, Fact] = {"missing uploads": missing, "model sha256": digest_of(model)}
    measured = measures_of(work, model)
    common = server_facts(mechanism, work.cell.rounds, len(model))
    facts = {**protection_facts(mechanism), **mechanism.figures, **measured, **counted, **common}
    series = server_series(judge.outputs(model), work.dataset.classes, exchanged, len(model))
    return Outcome(tuple(figures), facts, time.perf_counter() - begun, series)


def _sent(crew: Crew, number: int, model: Floats, chosen: Indices) -> Mapping[int, Floats]:
    if not len(chosen):
        return {}
    with suppress(NotFinite):
        sent = crew.uploads(number, model, chosen)
        if all(np.isfinite(upload).all() for upload in sent.values()):
            return sent
    raise UserError(
        f"training diverged in round {number}: a client's model is no longer finite; lower "
        "train.learning_rate or set train.grad_clip"
    )


def train_block(work: ClientWork, number: int, model: Floats, members: Indices) -> list[Floats]:
    """Train the `members` (k,) from `model` (d,) as one batch; return what each sends, (d,)."""
    mechanism, training, clients = work.mechanism, work.training, members.tolist()
    parts = [work.parts[client] for client in clients]
    seeds = [work.order_seed(client, number) for client in clients]
    dataset, loss = work.taught, functional.cross_entropy

    def after_batch(weights: torch.Tensor, start: torch.Tensor, places: Indices) -> torch.Tensor:
        return mechanism.after_batch(weights, start, Step(members[places], training.learning_rate))

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
        upload_of(work, client, number, model, weights, work.upload_words(client, number))
        for client, weights in zip(clients, trained, strict=True)
    ]


def upload_of(
    work: ClientWork, client: int, number: int, model: Floats, weights: Floats, words: Words
) -> Floats:
    """The vector (d,) that a client sends after it trained `weights` (d,) from `model` (d,)."""
    said = work.said(client, number, weights, model)
    return work.mechanism.upload(said, model, len(work.parts[client]), words)


def in_order(
    chosen: Indices, blocks: Sequence[Indices], sent: Sequence[Sequence[Floats]]
) -> dict[int, Floats]:
    """The uploads by client, in the order of `chosen`; `sent` has them block by block."""
    by_client = {
        int(client): upload
        for members, uploads in zip(blocks, sent, strict=True)
        for client, upload in zip(members, uploads, strict=True)
    }
    return {int(client): by_client[int(client)] for client in chosen}


def protection_facts(protection: Protection) -> dict[str, Fact]:
    """The facts of an outcome about a mechanism's protection; an infinite epsilon becomes None."""
    guarantee = protection.guarantee
    if guarantee is None:
        return {"epsilon": None, "stated": None, "delta": None, "unit": None, "protects": protection.protects}
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
