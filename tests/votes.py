"""Votes, the charges that come with them, and the bases that decide them, in a node's folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from mechanisms.accounting.ledger import Ledger, SampledGaussian
from node.storage.records import Receipt
from node.storage.spend_file import Charge, SpendFile
from node.storage.state import Owner, State
from node.system.disk import DISK, Disk
from protocol.actions import OpenVote
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import of_keys
from protocol.quorum.lineage import Line
from protocol.vectors.pieces import base_digest
from protocol.wire.masked_messages import Release, ReleaseHead, ResultCertificate
from protocol.wire.messages import Base, Group
from protocol.wire.signing import parameters_hash
from tests.parts import ready

KEY = NodeKey(bytes([1]) * 32)
PARAMETERS = parameters_hash("{}")
OWNER = Owner("digits", PARAMETERS, KEY.public)
SID = b"s" * 32
STEP = SampledGaussian(1.1, 0.25, 1)
AHEAD = Charge(b"a" * 32, 2, 2, (STEP,))
WORDS = 4096


def vector(value: float) -> np.ndarray:
    return np.full(WORDS, value, "<f4")


def opened(folder: Path, disk: Disk = DISK) -> State:
    return State(folder, OWNER, vector(0), None, disk)


def a_vote(state: State) -> OpenVote:
    """Returns an open vote in a masked session on the folder's base."""
    head = ReleaseHead(SID, KEY.public, 7, bytes(32), bytes(32), bytes(32), bytes(64))
    proof = ResultCertificate(SID, 7, (bytes(32),) * 40, (), (), (head,))
    group = Group((ready(KEY, KEY.public, base=state.base),), 0, KEY.public, signature=bytes(64))
    return OpenVote(SID, 0, group, proof, Release(head, (bytes(32),) * 5))


def votes(folder: Path, disk: Disk = DISK) -> None:
    """Opens the folder and votes."""
    with closing(opened(folder, disk)) as state:
        state.bind(a_vote(state))


def decides(folder: Path, disk: Disk = DISK) -> None:
    """Stores the session's result, a strong base, which leaves no vote open."""
    new = Base(1, base_digest(PARAMETERS, 1, vector(1)), 3, SID, 1)
    with closing(opened(folder, disk)) as state:
        state.adopt(new, vector(1), 1, None, (), Line(1, of_keys([KEY.public])))


def charged(folder: Path, disk: Disk = DISK) -> State:
    """Opens the folder of a node that has charged the first step of a run, under a key of its own."""
    spending = SpendFile(folder / "key", KEY.public, "digits", disk)
    state = State(folder, OWNER, vector(0), spending, disk)
    if not state.offers:
        state.charge(SID, 1, 1, Receipt((STEP,), (), None))
    return state


def votes_and_charges(folder: Path, disk: Disk = DISK) -> None:
    """Votes in the first step, charges the second with it, and says so: its release would leave now."""
    with closing(charged(folder, disk)) as state:
        state.bind(a_vote(state), AHEAD)
        released(folder).touch()


def released(folder: Path) -> Path:
    """Returns the file that stands for a release that has left."""
    return folder.with_suffix(".released")


def is_sound(folder: Path) -> tuple[bool, bool, bool]:
    """Checks what a stop of `votes_and_charges` left; returns whether vote, charge and release are there."""
    has_left = released(folder).exists()
    with closing(sqlite3.connect(folder / "state.db")) as database:  # a power failure may take the other file
        cast, booked = (
            {sid for (sid,) in database.execute(f"select sid from {table}")} for table in ("vote", "ledger")
        )
    assert not cast or AHEAD.sid in booked
    state = charged(folder)
    paid = {sid for (sid,) in state._database.rows("select sid from ledger")}
    assert SID in paid
    assert state.votes in ({}, {SID: a_vote(state)})
    assert not state.votes or AHEAD.sid in paid
    assert not has_left or state.votes
    assert state.ledger == Ledger.of((STEP,) * len(paid))
    found = bool(state.votes), AHEAD.sid in paid, has_left
    state.close()
    return found
