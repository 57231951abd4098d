"""A vote, and the base that decides it, are stored whole or not at all: kills at every step, a full disk."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mechanisms.accounting.ledger import Ledger, SampledGaussian
from node.errors import UserError
from node.storage.records import Receipt
from node.storage.spend_file import Charge, SpendFile
from node.storage.state import State
from protocol.actions import OpenVote
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import of_keys
from protocol.quorum.lineage import Line
from protocol.vectors.pieces import base_digest
from protocol.wire.masked_messages import Release, ReleaseHead, ResultCertificate
from protocol.wire.messages import Base, Group
from protocol.wire.signing import parameters_hash
from tests.e2e.dying_start import arm
from tests.parts import ready

KEY = NodeKey(bytes([1]) * 32)
PARAMETERS = parameters_hash("{}")
SID = b"s" * 32
STEP = SampledGaussian(1.1, 0.25, 1)
AHEAD = Charge(b"a" * 32, 2, 2, (STEP,))
WORDS = 4096
MOST_STEPS = 200


def vector(value: float) -> np.ndarray:
    return np.full(WORDS, value, "<f4")


def opened(folder: Path) -> State:
    return State(folder, "digits", PARAMETERS, vector(0), KEY.public, None)


def a_vote(state: State) -> OpenVote:
    """Returns an open vote in a masked session on the folder's base."""
    head = ReleaseHead(SID, KEY.public, 7, bytes(32), bytes(32), bytes(32), bytes(64))
    proof = ResultCertificate(SID, 7, (bytes(32),) * 40, (), (), (head,))
    group = Group((ready(KEY, KEY.public, base=state.base),), 0, KEY.public, signature=bytes(64))
    return OpenVote(SID, 0, group, proof, Release(head, (bytes(32),) * 5))


def votes(state: State) -> None:
    state.bind(a_vote(state))


def decides(state: State) -> None:
    """Stores the session's result, a strong base, which leaves no vote open."""
    new = Base(1, base_digest(PARAMETERS, 1, vector(1)), 3, SID, 1)
    state.adopt(new, vector(1), 1, None, (), Line(1, of_keys([KEY.public])))


def killed_at(number: int, folder: Path, does: Callable[[Path], None]) -> bool:
    """Does it in a process that is killed before this step; returns False if it reached its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            arm(number, folder)
            does(folder)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -signal.SIGKILL), ended
    return ended != 0


def test_a_vote_is_there_whole_or_not_at_all_wherever_its_storing_is_killed(tmp_path: Path) -> None:
    seen = set()
    for number in range(1, MOST_STEPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        opened(folder).close()
        was_killed = killed_at(number, folder, lambda path: votes(opened(path)))
        state = opened(folder)
        assert state.votes in ({}, {SID: a_vote(state)}), number
        seen.add(bool(state.votes))
        state.close()
        if not was_killed:
            break
    assert seen == {False, True}
    assert number < MOST_STEPS - 1


def charged(folder: Path) -> State:
    """Opens the folder of a node that has charged the first step of a run, under a key of its own."""
    state = State(
        folder, "digits", PARAMETERS, vector(0), KEY.public, SpendFile(folder / "key", KEY.public, "digits")
    )
    if not state.offers:
        state.charge(SID, 1, 1, Receipt((STEP,), (), None))
    return state


def votes_and_charges(folder: Path) -> None:
    """Votes in the first step, charges the second with it, and says so: its release would leave now."""
    state = charged(folder)
    state.bind(a_vote(state), AHEAD)
    (folder / "released").touch()


def test_no_release_without_its_vote_and_no_vote_without_its_charge_wherever_their_storing_is_killed(
    tmp_path: Path,
) -> None:
    """The next step's charge is stored with the vote: a kill leaves at most a charge without a release."""
    seen = set()
    for number in range(1, MOST_STEPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        charged(folder).close()
        was_killed = killed_at(number, folder, votes_and_charges)
        released = (folder / "released").exists()
        with closing(
            sqlite3.connect(folder / "state.db")
        ) as database:  # a power failure may take the other file
            cast, booked = (
                {sid for (sid,) in database.execute(f"select sid from {table}")}
                for table in ("vote", "ledger")
            )
        assert not cast or AHEAD.sid in booked, number
        state = charged(folder)
        paid = {sid for (sid,) in state._database.rows("select sid from ledger")}
        assert SID in paid
        assert state.votes in ({}, {SID: a_vote(state)}), number
        assert not state.votes or AHEAD.sid in paid, number
        assert not released or state.votes, number
        assert state.ledger == Ledger.of((STEP,) * len(paid))
        seen.add((bool(state.votes), AHEAD.sid in paid, released))
        state.close()
        if not was_killed:
            break
    assert seen == {(False, False, False), (False, True, False), (True, True, False), (True, True, True)}
    assert number < MOST_STEPS - 1


def test_a_base_and_the_end_of_the_vote_that_it_decides_are_one_step(tmp_path: Path) -> None:
    seen = set()
    for number in range(1, MOST_STEPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        state = opened(folder)
        votes(state)
        state.close()
        was_killed = killed_at(number, folder, lambda path: decides(opened(path)))
        state = opened(folder)
        assert (state.base.generation, bool(state.votes)) in ((0, True), (1, False)), number
        assert np.array_equal(state.base_vector, vector(state.base.generation))
        seen.add(state.base.generation)
        state.close()
        if not was_killed:
            break
    assert seen == {0, 1}
    assert number < MOST_STEPS - 1


def test_on_a_full_disk_nothing_is_voted_and_it_is_said_in_one_line(tmp_path: Path) -> None:
    """The release follows the stored vote, so it is never sent."""
    opened(tmp_path).close()
    state = opened(tmp_path)
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        (pages,) = database.execute("pragma page_count").fetchone()
    state._database._connection.execute(f"pragma max_page_count = {pages}")
    large = replace(a_vote(state).release, shares=(bytes(32),) * 64)

    def vote_on_and_on() -> None:
        for number in range(1000):
            state.bind(replace(a_vote(state), sid=number.to_bytes(32, "big"), release=large))

    with pytest.raises(UserError, match="full"):
        vote_on_and_on()
    stored = dict(state.votes)
    state.close()
    assert opened(tmp_path).votes == stored
