"""One node of a simulated network: its machine, its disk, and the units that it learns, offers and spends.

In each training a peer learns one numbered unit. `fresh` holds units that were never offered, `spent` the
offered ones; an offer is a snapshot of `fresh`. The plan says from which round on a peer follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from protocol.actions import (
    Action,
    Adopted,
    Closed,
    Completed,
    Evidence,
    Failed,
    Fatal,
    Healed,
    Keep,
    OpenVote,
    RaiseEpoch,
    Reason,
    Send,
    Serve,
    Spend,
    Unbind,
    Vote,
    WrongTracker,
)
from protocol.aggregation.participant import SessionTimeouts
from protocol.machine import Machine
from protocol.quorum.electorate import Electorate, of_names
from protocol.quorum.lineage import FIRST, Line
from protocol.swarm.node import Node
from protocol.swarm.node_state import (
    Aggregation,
    Contacts,
    NodeState,
    QuorumRules,
    Settings,
    SharedTask,
    Timeouts,
)
from protocol.swarm.recovery.fetch import Past
from protocol.vectors.pieces import Floats, base_digest, piece, raw
from protocol.wire import ids, signing
from protocol.wire.ids import NOBODY
from protocol.wire.masked_messages import ResultCertificate, TotalPiece
from protocol.wire.messages import (
    NO_SID,
    Base,
    BasePiece,
    Certificate,
    CertificateRequest,
    Group,
    Key,
    LineagePiece,
    PieceRequest,
    Sid,
    Sum,
)
from scenarios.simulator.hosts import Host
from scenarios.simulator.plans import MIN_PARTICIPANTS, Leave
from scenarios.simulator.rules import SLOT, Outcome, Units
from scenarios.simulator.wires import Wires

PARAMETERS = '{"simulated":true}'


@dataclass
class LearnedUnits:
    """The units that a peer learned, numbered: how many, those not yet spent, those spent since its base."""

    count: int = 0
    fresh: Units = ()
    spent: Units = ()


@dataclass
class Disk:
    """The state of a peer that survives a crash."""

    state: NodeState
    bases: dict[bytes, Floats]
    units: LearnedUnits = field(default_factory=LearnedUnits)
    sums: dict[tuple[Sid, Key, int], bytes] = field(default_factory=dict)
    certificates: dict[Sid, tuple[Group, Base, Certificate | ResultCertificate]] = field(default_factory=dict)
    lines: dict[bytes, Line] = field(default_factory=dict)
    votes: dict[Sid, OpenVote] = field(default_factory=dict)


class SimulatedPeer(Host):
    """A node that trains, offers, and adopts the bases of its sessions."""

    def __init__(self, index: int, network: Wires[Host]) -> None:
        super().__init__(index, network)
        vector = np.zeros(network.plan.aggregation.dimension, dtype="<f4")
        base = Base(0, base_digest(signing.parameters_hash(PARAMETERS), 0, vector), 0, NO_SID)
        self.disk = Disk(NodeState(0, base, None, {}), {base.digest: vector})
        self._offered: Units = ()
        self._progress_at = 0.0
        offers = network.plan.offers
        self._follows_from = dict(offers.follows).get(index, math.inf)
        self._train_s = dict(offers.own_train_s).get(index, offers.train_s)
        self._alone_after = 0
        """Its round in which it took its base, or the last one before this start."""
        self._ended_by: str | None = None
        """Why its last round ended alone."""
        self.gave_up = False
        """Whether it ended for want of others, before its run was over."""

    @property
    def machine(self) -> Machine:
        """The machine of this life."""
        return self.node

    @property
    def base(self) -> Base:
        """The base on disk."""
        return self.disk.state.base

    # -- life --------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Open a node on the contents of the disk, and continue training."""
        now = self.network.now
        self._progress_at = now
        epoch = self.disk.state.epoch + 1
        self.disk.state = replace(self.disk.state, epoch=epoch, counter=0)
        votes = dict(self.disk.votes)
        state = replace(self.disk.state, banned=dict(self.disk.state.banned), votes=votes)
        past = {sid: Past(group, base, {}) for sid, (group, base, _) in self.disk.certificates.items()}
        self.node = self._node(self._settings(), state, past)
        self._state = state
        self._alone_after, self._ended_by = self.node.round, None
        for leave in self.network.plan.conditions.leaves:
            if leave.peer == self.index and leave.at_s > self.network.elapsed_s:
                self.network.after(leave.at_s - self.network.elapsed_s, self, partial(self._leave, leave))
        self.carry_out(self.node.open(now))
        self._train()

    def _node(self, settings: Settings, state: NodeState, past: Mapping[Sid, Past]) -> Node:
        return Node(settings, state, past, self.network.random.randbytes(32))

    def _settings(self) -> Settings:
        plan, tracker = self.network.plan, self.network.tracker
        aggregation = plan.aggregation
        return Settings(
            key=self.key,
            endpoint=self.endpoint,
            instance=self.network.random.randbytes(16),
            task=SharedTask(
                name="simulated",
                parameters=PARAMETERS,
                min_participants=MIN_PARTICIPANTS,
                sums=plan.rounds,
                run_steps=aggregation.run_steps,
                leave_out=aggregation.leave_out,
            ),
            contacts=Contacts(
                seeds=() if tracker else tuple(peer.endpoint for peer in self.network.peers),
                tracker=tracker.endpoint if tracker else None,
                pins={},
                allow=None,
            ),
            aggregation=Aggregation(
                aggregation.dimension,
                aggregation.shares,
                aggregation.masked,
                aggregation.dimension + aggregation.slots,
            ),
            timeouts=Timeouts(
                aggregation.timeouts.group_s,
                SessionTimeouts(aggregation.timeouts.shares_s, aggregation.timeouts.sums_s),
            ),
            quorum=QuorumRules(None if tracker else self._named(), plan.quorum.liars, plan.quorum.weak),
        )

    def _named(self) -> Electorate:
        """The electors of the first base that this peer names."""
        quorum, names = self.network.plan.quorum, [peer.endpoint for peer in self.network.peers]
        return of_names(names if quorum.alike else [self.endpoint], quorum.liars)

    def resumed(self, now: float) -> None:
        """Continue after a hang; the time in it does not count as time without progress."""
        self._progress_at = now

    def _train(self) -> None:
        """Train for some time, then offer or follow; after the last round, close."""
        if not self.alive:
            return
        if self._is_over():
            self.carry_out(self.node.close(self.network.now))
            return
        is_spent = self.node.round + 1 >= self._follows_from or self._state.following
        then = self._follow if is_spent else self._offer
        self.network.after(self.network.random.uniform(*self._train_s), self, then)

    def _is_over(self) -> bool:
        """Whether the run is over, or this peer gives up as a real node does (node.runtime.record.ending)."""
        plan = self.network.plan
        if self.base.generation >= plan.rounds or self._ended_by is Reason.ALL_SPENT:
            return True
        is_alone = self.node.round - self._alone_after >= plan.rounds
        self.gave_up = is_alone or self._ended_by is Reason.SWARM_FINISHED
        return self.gave_up

    def _follow(self) -> None:
        self.network.rules.followed(self.index)
        actions = self.node.follow(self.network.now)
        self._save()
        self.carry_out(actions)

    def _offer(self) -> None:
        if self._is_over():
            self._train()
            return
        units = self.disk.units
        if not (self.network.plan.reuse_offers and units.fresh):
            units.fresh += (units.count,)
            units.count += 1
        self._offered = units.fresh
        vector = self.network.rules.offered(self.index, self._offered).astype("<f4")
        offer = np.append(vector, np.full(self.network.plan.aggregation.slots, SLOT, "<f4"))
        self.carry_out(self.node.offer(offer, self.network.random.randbytes(32), self.network.now))

    def _save(self) -> None:
        self.disk.state = replace(self._state, banned=dict(self._state.banned))

    # -- actions -----------------------------------------------------------------------------------

    def perform(self, action: Action) -> None:
        """Carry out an action as the shell of a real node does, on the simulated disk and network."""
        match action:
            case Send(to=str() as endpoint):
                self.send_all(endpoint, action.messages)
            case RaiseEpoch() | Spend() | Vote() | Unbind() | Keep():
                self._store(action)
            case Completed():
                self._take_mean(action)
                self._end_round(action.round, action.sid, None)
            case Failed():
                if self.network.plan.reuse_offers:
                    self.disk.units.fresh, self.disk.units.spent = self._offered, ()
                self._end_round(action.round, action.sid, action.reason)
            case Healed():
                self._take_mean(action)
            case Adopted():
                self._take_base(action.base, action.vector, action.line)
            case Serve():
                self._serve(action)
            case Closed():
                self._exit()
            case WrongTracker():
                self.network.rules.violated(f"peer {self.index} met another tracker: {action.text}")
            case Fatal() | Evidence():
                self._complain(action)
            case _:
                pass  # the simulator ignores notices

    def _store(self, action: RaiseEpoch | Spend | Vote | Unbind | Keep) -> None:
        match action:
            case Vote():
                self.disk.votes[action.vote.sid] = action.vote
            case Unbind():
                self.disk.votes.pop(action.sid, None)
            case RaiseEpoch():
                self._save()
            case Spend():
                self._spend(action)
            case Keep():
                for part in action.parts:
                    self.disk.sums[part.sid, part.owner, part.index] = bytes(part.payload)

    def _spend(self, spend: Spend) -> None:
        units, offered = self.disk.units, self._offered
        self.network.rules.spent(self.index, self.key.public, offered, spend)
        units.spent += offered
        units.fresh = tuple(unit for unit in units.fresh if unit not in offered)

    def _complain(self, action: Fatal | Evidence) -> None:
        rules = self.network.rules
        if isinstance(action, Fatal):
            rules.violated(f"peer {self.index} gave up: {action.text}")
        self._save()
        rules.accused(self.index, self.network.index_of(action.sender), action)

    def _take_mean(self, action: Completed | Healed) -> None:
        """Compute the base that follows from a session's mean; store it with its certificate."""
        self.network.rules.proved(self.index, action)
        before = action.group.base
        vector = self.disk.bases[before.digest] + action.result[: self.network.plan.aggregation.dimension]
        digest = base_digest(signing.parameters_hash(PARAMETERS), before.generation + 1, vector)
        line = action.line or FIRST
        base = Base(before.generation + 1, digest, len(action.contributors), action.sid, line.anchor)
        self.disk.certificates[action.sid] = (action.group, before, action.certificate)
        self.network.rules.parents[base] = before
        self._take_base(base, vector, line, isinstance(action, Healed))

    def _take_base(self, base: Base, vector: Floats, line: Line, is_fetched: bool = True) -> None:
        self.disk.bases[base.digest] = vector
        self.disk.lines[base.digest] = line
        self.disk.votes = {sid: vote for sid, vote in self.disk.votes.items() if vote.anchor >= base.anchor}
        self.disk.units.spent = ()
        self.network.rules.stored(self.index, base, self.base)
        actions = self.node.adopted(base, self.network.now)
        self._alone_after = self.node.round + is_fetched
        self._save()
        self.carry_out(actions)

    def _end_round(self, round: int, sid: Sid | None, reason: str | None) -> None:
        now = self.network.now
        self._save()
        self._ended_by = reason
        self.network.rules.ended(Outcome(self.index, round, sid, reason, now))
        self.network.rules.waited(self.index, now - self._progress_at, round)
        self._progress_at = now
        self._train()

    def _exit(self) -> None:
        """End the process after the last round."""
        self._say_goodbye()
        if self.alive:
            self.done = True
            self.network.end(self)

    def _leave(self, leave: Leave) -> None:
        """Stop the peer as its owner would, and start it again if the plan says so."""
        self._say_goodbye()
        if self.alive:
            self.network.end(self)
            self.gone = leave.back_at_s is None
            if leave.back_at_s is not None:
                self.network.after(leave.back_at_s - self.network.elapsed_s, self, self.start)

    def _say_goodbye(self) -> None:
        """Leave as a process does before it ends; the plan may let it crash while it does so."""
        self.carry_out(self.node.leave(self.network.now))
        if self.alive:
            self.network.rules.waited(self.index, self.network.now - self._progress_at, self.node.round)

    # -- serving -----------------------------------------------------------------------------------

    def _serve(self, action: Serve) -> None:
        match action.request:
            case CertificateRequest(sid=sid) if sid in self.disk.certificates:
                self.send_all(action.to, (self.disk.certificates[sid][2],))
            case PieceRequest(of=ids.LINEAGE, sid=digest, index=index) if digest in self.disk.lines:
                links = self.disk.lines[digest].whole
                piece_of = LineagePiece(digest, index, len(links), links[index : index + 1])
                self.send_all(action.to, (piece_of,))
            case PieceRequest(of=b"", sid=digest, index=index) if digest in self.disk.bases:
                vector = self.disk.bases[digest]
                part = raw(vector, piece(len(vector), index))
                self.send_all(action.to, (BasePiece(digest, index, part),))
            case PieceRequest(sid=sid, of=of, index=index) if (sid, of, index) in self.disk.sums:
                payload = self.disk.sums[sid, of, index]
                certificate = self.disk.certificates.get(sid)
                answer = _answer(certificate[2] if certificate else None, action.request, payload)
                if answer is not None:
                    self.send_all(action.to, (answer,))


def _answer(
    proof: Certificate | ResultCertificate | None, request: PieceRequest, payload: bytes
) -> Sum | TotalPiece | None:
    if request.of == NOBODY:
        return TotalPiece(request.sid, request.index, payload)
    sums = proof.sums if isinstance(proof, Certificate) else ()
    header = next((header for header in sums if header.sender == request.of), None)
    return None if header is None else replace(header, index=request.index, payload=payload)
