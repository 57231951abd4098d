"""A node's parts with nobody else there: no socket, no other peer."""

from __future__ import annotations

import io

from node.data import load_dataset
from node.gate import make_gate
from node.options import parse_arguments
from node.peer import Engine
from node.plan import Plan
from node.reporting import JsonReporter
from node.runner import prepare
from node.state import State
from node.tls import make_tls
from protocol.codec import parameters_hash
from protocol.identity import NodeKey
from protocol.messages import Base
from protocol.session import Session
from protocol.vectors import base_digest
from tests.parts import settings

SEED, HERE = bytes(32), "127.0.0.1:1"
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", "train.rounds=2")


class Alone:
    """A node's parts as the runner puts them together, without a listening socket."""

    def __init__(self, folder, mechanism, *overrides):
        sets = [f"--set={one}" for one in (*SMALL, f"privacy.mechanism={mechanism}", *overrides)]
        self.prepared = prepare(parse_arguments(["--peers", HERE, "--shard", "0/20", *sets]))
        options = self.prepared.options
        self.rows = len(load_dataset(options.task, options.data, options.shard).train_y)
        self.mechanism = self.prepared.mechanism
        self.parameters = parameters_hash(self.prepared.parameters)
        self.state = State(folder, "digits", self.parameters, self.prepared.trainer.vector())
        key = NodeKey(SEED)
        session = Session(
            settings(
                key,
                parameters=self.prepared.parameters,
                dimension=self.prepared.dimension,
                slots=self.prepared.weighting.slots,
            ),
            self.state.standing,
            self.state.past,
            bytes(32),
        )
        section = self.prepared.options.task.aggregation
        plan = Plan(5, "digits", key.public.hex(), "test", self.prepared.parameters, section, 3, None)
        self.folder, self.said = folder, io.StringIO()
        reporter = JsonReporter(self.said)
        gate = make_gate(self.prepared.options.task, self.prepared.trainer, self.state)
        written = self.prepared.folder(folder)
        parts = (self.prepared.trainer, self.mechanism, self.prepared.weighting, gate, written, reporter)
        tls = make_tls(key, "auto", HERE, session.addresses.may_answer)
        self.peer = Engine(plan, session, self.state, *parts, tls)

    def base(self, generation, vector):
        return Base(generation, base_digest(self.parameters, generation, vector), 3, bytes([generation]) * 32)
