"""The parts of a node without any other peer: no sockets."""

import io
from dataclasses import replace

import numpy as np

from node.app.run import prepare
from node.data.dataset import load_dataset
from node.net.tls import make_tls
from node.observe.lines import JsonOutput
from node.options import parse_arguments
from node.runtime.engine import Engine
from node.runtime.known_tracker import KnownTracker
from node.runtime.privacy.group_guarantees import withstands
from node.storage.state import Owner, State
from node.task.shared_noise_keys import DISTRIBUTED
from protocol.actions import Completed, OpenVote, Spend, Vote
from protocol.crypto.node_key import NodeKey
from protocol.swarm.node import Node
from protocol.vectors.pieces import base_digest
from protocol.wire.messages import Base, Certificate
from protocol.wire.signing import parameters_hash
from tests import parts
from tests.parts import settings

SEED, HERE = bytes(32), "127.0.0.1:1"
OTHERS = ",".join(f"127.0.0.1:{port}" for port in range(2, 8))
"""Peers that never start: as many as the tests' largest `privacy.honest` asks for."""
STEPS = ("train.steps=6", "train.report_every=3", "model.args.sizes=[64,8,10]", "privacy.epsilon=3")
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", "train.rounds=2")


def prepared(mechanism, *overrides):
    """Prepares a node of this mechanism, without making a folder for it."""
    small = STEPS if mechanism == DISTRIBUTED else SMALL
    sets = [f"--set={one}" for one in (*small, f"privacy.mechanism={mechanism}", *overrides)]
    return prepare(parse_arguments(["--peers", f"{HERE},{OTHERS}", "--shard", "0/20", *sets]))


class Alone:
    """A node's parts as the runner assembles them, without a listening socket."""

    def __init__(self, folder, mechanism, *overrides):
        self.prepared = prepared(mechanism, *overrides)
        options = self.prepared.options
        self.rows = len(load_dataset(options.task, options.data, options.shard).train_y)
        self.learning, plan = self.prepared.learning, self.prepared.plan
        self.mechanism = self.learning.mechanism
        self.parameters = parameters_hash(plan.parameters)
        key = NodeKey(SEED)
        initial = self.learning.trainer.vector()
        self.state = State(folder, Owner("digits", self.parameters, key.public), initial, None)
        node = Node(
            settings(
                key,
                parameters=plan.parameters,
                dimension=self.state.dimension,
                offered=self.learning.offered,
                sums=plan.sums if options.task.step_plan else 5,
                leave_out=options.task.aggregation.leave_out_rounds,
            ),
            self.state.node_state,
            self.state.past,
            bytes(32),
        )
        if options.task.step_plan is None:
            plan = replace(plan, rounds=5, sums=5, tries=5)
        self.folder, self.said = folder, io.StringIO()
        self.peer = Engine(
            plan=plan,
            node=node,
            state=self.state,
            learning=self.learning,
            folder=self.prepared.folder(folder),
            observer=JsonOutput(self.said),
            tls=make_tls(key, "auto", HERE, node.addresses.may_answer),
            tracker=KnownTracker(None, folder / "tracker.pub"),
            key=key,
            sums=withstands(options.task.aggregation, 3, options.task.privacy.honest),
        )

    def base(self, generation, vector):
        return Base(generation, base_digest(self.parameters, generation, vector), 3, bytes([generation]) * 32)


def ended(node, mean, members=3, contributors=None, session=b"s" * 32):
    """Returns the end of a session on this node's base, with `members` in its group."""
    keys = parts.members(members)
    readys = (parts.ready(key, keys[0].public, base=node.state.base) for key in keys)
    there = tuple(key.public for key in keys[: contributors or members])
    group = parts.group_of(readys, keys[0])
    return Completed(group, 1, mean, there, Certificate(session, ()))


def words(node, value, weight=None):
    """Returns a session's mean: `value` everywhere, followed by the mean weight if there is one."""
    vector = np.full(node.state.dimension, value, np.float32)
    return vector if weight is None else np.append(vector, np.float32(weight * node.learning.bound))


def sid(number):
    return bytes([number]) * 32


def spend(node, number):
    node.peer._contribution.spend(Spend(sid(number), number, 0), 1)


def voted(node, number, goes_on=True):
    node.peer._contribution.vote(Vote(OpenVote(sid(number), 0), goes_on), 1)


async def step(node, number):
    """Offers, spends, and takes the sum of this node's words and two like them; returns the words."""
    node.peer._number = node.peer._plan.round(node.state.base) + 1
    node.peer._training = node.peer._train(number)
    assert node.peer._training.offered
    offer = node.peer._contribution.offer()
    spend(node, number)
    total = offer * np.uint32(3) if offer.dtype == np.uint32 else offer.copy()
    await node.peer._take_mean(replace(ended(node, total, session=sid(number)), round=number))
    await node.peer._history.catch_up()
    return offer
