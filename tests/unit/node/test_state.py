"""What survives: every step is whole, nothing spent is fresh again, and the folder says whose it is."""

from __future__ import annotations

import hashlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from node.errors import ConfigError, UserError
from node.state import KEPT_SESSIONS, Kept, State
from protocol.messages import Base, Certificate, Group, Sum
from protocol.vectors import base_digest

PARAMETERS = bytes(32)
D = 5


def vector(value: float) -> np.ndarray:
    return np.full(D, value, dtype=np.float32)


def opened(folder, task="digits", parameters=PARAMETERS) -> State:
    return State(folder, task, parameters, vector(0))


def reopened(state: State, folder) -> State:
    state.close()
    return opened(folder)


def base(generation: int, value: float) -> Base:
    digest = base_digest(PARAMETERS, generation, vector(value))
    return Base(generation, digest, 3, bytes([generation]) * 32)


def kept(state: State, new: Base) -> Kept:
    header = Sum(new.sid, bytes(32), bytes(32), (bytes(32),), bytes(64))
    return Kept(Group((), 0, bytes(32), bytes(64)), state.base, Certificate(new.sid, (header,)))


def test_a_new_folder_begins_with_the_initial_model(tmp_path):
    state = opened(tmp_path)
    assert (state.round, state.base.generation, state.spent, state.fresh) == (0, 0, None, None)
    assert np.array_equal(state.working, vector(0))


def test_what_was_trained_is_there_after_a_restart(tmp_path):
    state = opened(tmp_path)
    state.trained(vector(2))
    state = reopened(state, tmp_path)
    assert np.array_equal(state.fresh, vector(2))
    assert np.array_equal(state.working, vector(2))


def test_spending_moves_fresh_to_spent_and_writes_the_ledger_in_one_step(tmp_path):
    state = opened(tmp_path)
    state.trained(vector(2))
    state.spend(b"s" * 32, 1, 0, 1000)
    state = reopened(state, tmp_path)
    assert state.fresh is None
    assert np.array_equal(state.spent, vector(2))
    assert state.offers == 1
    assert np.array_equal(state.working, vector(2))


def test_a_second_failed_offer_adds_to_what_is_spent(tmp_path):
    state = opened(tmp_path)
    for number in (1, 2):
        state.trained(vector(number))
        state.spend(bytes([number]) * 32, number, 0, 1000)
    state = reopened(state, tmp_path)
    assert np.array_equal(state.spent, vector(3))
    assert state.offers == 2


def test_nothing_is_spent_twice_in_one_session(tmp_path):
    state = opened(tmp_path)
    state.trained(vector(1))
    state.spend(b"s" * 32, 1, 0, 1000)
    state.trained(vector(4))
    with pytest.raises(sqlite3.IntegrityError):
        state.spend(b"s" * 32, 1, 0, 1000)
    state = reopened(state, tmp_path)
    assert np.array_equal(state.fresh, vector(4)), "a step that failed has changed nothing"
    assert np.array_equal(state.spent, vector(1))


def test_spending_nothing_is_refused(tmp_path):
    with pytest.raises(RuntimeError):
        opened(tmp_path).spend(b"s" * 32, 1, 0, 1000)


def test_an_aggregate_replaces_base_and_spent_and_keeps_the_base_before(tmp_path):
    state = opened(tmp_path)
    initial = state.base
    state.trained(vector(1))
    state.spend(b"s" * 32, 1, 0, 1000)
    new = base(1, 5)
    state.adopt(new, vector(5), 1, kept(state, new))
    state = reopened(state, tmp_path)
    assert (state.base, state.previous, state.round, state.spent) == (new, initial, 1, None)
    assert np.array_equal(state.base_vector, vector(5))
    assert np.array_equal(state.vector_of(initial), vector(0))
    assert np.array_equal(state.vector_named(initial.digest), vector(0))
    assert state.vector_named(b"?" * 32) is None
    assert list(state.past) == [new.sid]


def test_fresh_progress_survives_a_new_base(tmp_path):
    state = opened(tmp_path)
    state.trained(vector(3))
    state.adopt(base(1, 5), vector(5), 0, None)
    state = reopened(state, tmp_path)
    assert np.array_equal(state.working, vector(8))


def test_certificates_are_kept_for_two_generations(tmp_path):
    state = opened(tmp_path)
    for generation in (1, 2, 3):
        new = base(generation, generation)
        part = Sum(new.sid, b"k" * 32, bytes(32), (), bytes(64), 0, b"payload")
        state.keep_sum(part)
        state.adopt(new, vector(generation), generation, kept(state, new))
    assert state.kept_sum(base(3, 3).sid, b"k" * 32, 0) == b"payload"
    assert state.kept_sum(base(1, 1).sid, b"k" * 32, 0) is None
    state = reopened(state, tmp_path)
    assert list(state.sessions) == [base(generation, generation).sid for generation in (2, 3)]
    assert len(state.sessions) == KEPT_SESSIONS


def test_vectors_that_nothing_names_are_deleted(tmp_path):
    state = opened(tmp_path)
    for generation in range(1, 6):
        state.adopt(base(generation, generation), vector(generation), generation, None)
    assert len(list((tmp_path / "vectors").glob("*.f32"))) == 2


def test_a_ban_is_remembered_with_its_evidence(tmp_path):
    state = opened(tmp_path)
    header = Sum(bytes(32), b"k" * 32, bytes(32), (), bytes(64))
    state.ban(b"k" * 32, (header, header))
    assert reopened(state, tmp_path).standing.banned == {b"k" * 32}


def test_a_folder_of_another_task_is_refused(tmp_path):
    opened(tmp_path).close()
    with pytest.raises(ConfigError, match="holds task 'digits', not 'ward': name another folder"):
        opened(tmp_path, task="ward")


def test_a_folder_with_other_parameters_is_refused(tmp_path):
    opened(tmp_path).close()
    with pytest.raises(ConfigError, match="was made with other parameters of task 'digits'"):
        opened(tmp_path, parameters=b"x" * 32)


def test_a_damaged_vector_is_named(tmp_path):
    opened(tmp_path).close()
    (path,) = (tmp_path / "vectors").glob("*.f32")
    path.write_bytes(b"\0" * 4 * D + b"\1\0\0\0")
    with pytest.raises(UserError, match="is damaged: start with another --out"):
        opened(tmp_path)


def test_a_missing_vector_is_named(tmp_path):
    opened(tmp_path).close()
    (path,) = (tmp_path / "vectors").glob("*.f32")
    path.unlink()
    with pytest.raises(UserError, match="missing or unreadable"):
        opened(tmp_path)


def test_training_and_catching_up_from_two_threads_lose_no_file(tmp_path):
    """A base adopted between a vector's file and its name in the database must not sweep the file away."""
    state = opened(tmp_path)

    def train() -> None:
        for number in range(1, 121):
            state.trained(vector(number))
            name = hashlib.sha256(vector(number).tobytes()).hexdigest()[:32]
            assert (tmp_path / "vectors" / f"{name}.f32").exists(), number

    def catch_up() -> None:
        for generation in range(1, 121):
            state.adopt(base(generation, -generation), vector(-generation), generation, None)

    with ThreadPoolExecutor(2) as threads:
        for running in [threads.submit(train), threads.submit(catch_up)]:
            running.result()
    state = reopened(state, tmp_path)
    assert np.array_equal(state.fresh, vector(120))
    assert np.array_equal(state.base_vector, vector(-120))
    state.close()


def test_a_database_that_is_none_is_named(tmp_path):
    (tmp_path / "state.db").write_bytes(b"this is not a database, and it is long enough" * 100)
    with pytest.raises(UserError, match=r"state\.db can not be used"):
        opened(tmp_path)
