"""What survives: every step is whole, nothing spent is fresh again, and the folder names its owner."""

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import msgpack
import numpy as np
import pytest

from mechanisms.accounting.ledger import (
    Event,
    Gaussian,
    Ledger,
    Pure,
    Relation,
    SampledGaussian,
    Spent,
    Terms,
    Unit,
)
from mechanisms.accounting.terms import unknown_terms
from node.runtime.serving import answer
from node.storage.records import NOTHING, Ended, Receipt
from node.storage.spend_file import Charge, SpendFile
from node.storage.state import KEPT_SESSIONS, Kept, Owner, State, splits_as_before
from node.system.errors import ConfigError, UserError
from protocol.actions import OpenVote
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import of_keys
from protocol.quorum.lineage import FIRST, Line
from protocol.vectors.pieces import PIECE_WORDS, base_digest
from protocol.wire import signing
from protocol.wire.ids import LINEAGE, NOBODY, RESIGNED
from protocol.wire.masked_messages import (
    Deal,
    Dealt,
    JoinHead,
    Release,
    ReleaseHead,
    ResultCertificate,
    TotalPiece,
)
from protocol.wire.messages import (
    Base,
    Certificate,
    CertificateRequest,
    ChargeCount,
    Charged,
    Group,
    LineagePiece,
    Link,
    PieceRequest,
    Sum,
)
from tests.parts import ready

PARAMETERS = bytes(32)
KEY = b"k" * 32
OWNER = Owner("digits", PARAMETERS, KEY)
STEPS = SampledGaussian(1.1, 0.25, 8)
RELEASE = Gaussian(2.5)
D = 5


def vector(value: float) -> np.ndarray:
    return np.full(D, value, dtype=np.float32)


def opened(folder, task="digits", parameters=PARAMETERS, key=KEY, spending=None) -> State:
    return State(folder, Owner(task, parameters, key), vector(0), spending)


def reopened(state: State, folder) -> State:
    state.close()
    return opened(folder)


def base(generation: int, value: float) -> Base:
    digest = base_digest(PARAMETERS, generation, vector(value))
    return Base(generation, digest, 3, bytes([generation]) * 32)


def ending(round: int, outcome: str = "fallback") -> Ended:
    return Ended(round, f"{round}: {outcome}")


def kept(state: State, new: Base) -> Kept:
    header = Sum(new.sid, bytes(32), bytes(32), (bytes(32),), bytes(64))
    return Kept(Group((), 0, bytes(32), signature=bytes(64)), state.base, Certificate(new.sid, (header,)))


@pytest.fixture
def state(tmp_path) -> State:
    return opened(tmp_path)


def receipt(*events: Event, epsilon: float = 0.5, memory=((1.5, 2.0), (3.25,))) -> Receipt:
    return Receipt(events, memory, Spent(epsilon, 1e-5, "closed form"))


def charged(state: State, number: int, paid: Receipt, pending: tuple[Event, ...] = ()) -> None:
    state.trained(vector(number), pending)
    state.spend(bytes([number]) * 32, number, 0, 1000, paid)


def private_parts(state: State) -> tuple[object, ...]:
    return state.ledger, state.pending, state.memory


@contextmanager
def database_of(folder) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as database:
        yield database


def failing(state: State, table: str, when: str = "") -> None:
    """Makes the disk fail as a row of this table is written."""
    trigger = (
        f"create trigger full before insert on {table} {when} begin select raise(abort, 'disk full'); end"
    )
    state._database._connection.execute(trigger)


disk_full = pytest.raises(sqlite3.IntegrityError, match="disk full")


def vectors_in(folder) -> list[Path]:
    return list((folder / "vectors").iterdir())


def test_a_new_folder_begins_with_the_initial_model_and_has_spent_nothing(state, tmp_path):
    assert (state.round, state.base.generation, state.spent, state.fresh) == (0, 0, None, None)
    assert np.array_equal(state.working, vector(0))
    assert private_parts(state) == (Ledger(()), (), ())
    with pytest.raises(RuntimeError):
        state.spend(b"s" * 32, 1, 0, 1000, NOTHING)
    state.without_gate()
    state.adopt(base(1, 5), vector(5), 1, None, ())
    with database_of(tmp_path) as database:
        names = {name for (name,) in database.execute("select name from fact")}
    assert not names & {"judged", "good"}


def test_what_was_trained_and_spent_is_there_after_a_restart(state, tmp_path):
    state.trained(vector(2), (STEPS, RELEASE, Pure(0.5)))
    state = reopened(state, tmp_path)
    assert np.array_equal(state.fresh, vector(2))
    assert np.array_equal(state.working, vector(2))
    assert private_parts(state) == (Ledger(()), (STEPS, RELEASE, Pure(0.5)), ())
    state.spend(b"s" * 32, 1, 0, 1000, NOTHING)
    state = reopened(state, tmp_path)
    assert (state.fresh, state.offers) == (None, 1)
    assert np.array_equal(state.spent, vector(2))
    assert np.array_equal(state.working, vector(2))
    charged(state, 1, NOTHING)
    state = reopened(state, tmp_path)
    assert np.array_equal(state.spent, vector(3)), "a second failed offer adds to what is spent"
    assert state.offers == 2


def test_a_charge_that_fails_as_a_second_one_in_a_session_does_changes_nothing(state, tmp_path):
    charged(state, 1, receipt(RELEASE))
    state.trained(vector(4), (STEPS,))
    with pytest.raises(sqlite3.IntegrityError):
        state.spend(bytes([1]) * 32, 2, 0, 1000, receipt(STEPS, RELEASE, memory=((9.0,),)))
    for _ in range(2):
        assert private_parts(state) == (Ledger.of((RELEASE,)), (STEPS,), ((1.5, 2.0), (3.25,)))
        assert np.array_equal(state.fresh, vector(4))
        assert np.array_equal(state.spent, vector(1))
        state = reopened(state, tmp_path)


def test_each_offer_adds_to_the_ledger_and_has_a_row_with_its_events_and_the_total_so_far(state, tmp_path):
    charged(state, 1, receipt(STEPS, RELEASE), pending=(STEPS,))
    for _ in range(2):
        assert private_parts(state) == (Ledger.of((STEPS, RELEASE)), (), ((1.5, 2.0), (3.25,)))
        state = reopened(state, tmp_path)
    charged(state, 2, receipt(STEPS, STEPS, RELEASE, epsilon=0.75))
    charged(state, 3, NOTHING)
    for _ in range(2):
        assert state.ledger == Ledger.of((STEPS,) * 3 + (RELEASE,) * 2)
        state = reopened(state, tmp_path)
    with database_of(tmp_path) as database:
        rows = database.execute("select round, events, epsilon, delta from ledger order by round").fetchall()
    assert [(number, len(events.splitlines()), *cost) for number, events, *cost in rows] == [
        *((1, 2, 0.5, 1e-5), (2, 3, 0.75, 1e-5), (3, 0, None, None))
    ]


def test_how_a_round_ended_is_stored_with_its_number_until_the_next_one_has_ended(state, tmp_path):
    """If the process is killed, its line of history is made from this."""
    assert (state.round, state.ending) == (0, None)
    charged(state, 1, receipt(RELEASE))
    before = private_parts(state)
    state.fell_back(ending(1))
    state = reopened(state, tmp_path)
    assert (state.round, state.ending, private_parts(state)) == (1, ending(1).text, before)
    state.trained(vector(4), (STEPS,))
    state.adopt(base(1, 5), vector(5), 1, None, ((7.0,),))  # a fetched base ends no round
    for _ in range(2):
        assert (state.round, state.ending) == (1, ending(1).text)
        assert private_parts(state) == (Ledger.of((RELEASE,)), (STEPS,), ((7.0,),))
        state = reopened(state, tmp_path)
    state.adopt(base(2, 6), vector(6), ending(2, "aggregated"), None, ())
    state = reopened(state, tmp_path)
    assert (state.round, state.ending, state.base.generation) == (2, ending(2, "aggregated").text, 2)


def test_a_database_of_a_newer_version_is_refused_and_left_alone(state, tmp_path):
    state.close()
    with database_of(tmp_path) as database:
        database.execute("pragma user_version = 7")
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'state.db'} was made by a newer version of murmuration (its form is 7, this one knows "
        "up to 5): install that version, or name another --out"
    )
    assert caught.value.status == 2
    with database_of(tmp_path) as database:
        assert database.execute("pragma user_version").fetchone() == (7,)


def test_what_is_no_whole_database_of_a_node_is_refused(state, tmp_path):
    state.close()
    path = tmp_path / "state.db"
    whole, lost = path.read_bytes(), "knows what was spent: put the newest copy back"

    def refused(content: bytes | None, line: str) -> None:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=line):
            opened(tmp_path)
        path.unlink()

    assert len(whole) >= 5 * 4096
    for size in (0, 100, 4096, 2 * 4096, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        refused(whole[:size], lost)
    refused(b"x" * 5000, lost)
    refused(b"this is not a database, and it is long enough" * 100, r"state\.db cannot be used")
    for made, line in (
        ("pragma journal_mode = wal", "is empty, and it knows what was spent"),
        ("create table ledger (sid blob primary key, epsilon real)", "another version"),
    ):
        with database_of(tmp_path) as database:
            database.execute(made)
        refused(None, line)


def of_version_2(folder) -> None:
    """Turns a folder into one of version 2, without anchors, lines and votes."""
    with database_of(folder) as database:
        for name in ("base", "previous"):
            (packed,) = database.execute("select value from fact where name = ?", (name,)).fetchone()
            if packed is not None:
                before = msgpack.packb(msgpack.unpackb(packed)[:4])
                database.execute("update fact set value = ? where name = ?", (before, name))
        database.execute("delete from fact where name in ('line', 'previous_line', 'gone')")
        database.execute("drop table vote")
        database.execute("pragma user_version = 2")


def of_version_1(folder, facts: str = "name in ('key', 'epoch')") -> None:
    """Turns a folder into one of version 1, which does not name its owner either."""
    of_version_2(folder)
    with database_of(folder) as database:
        database.execute(f"delete from fact where {facts}")
        database.execute("pragma user_version = 1")


def test_a_folder_of_version_1_is_taken_over_with_what_it_has(state, tmp_path):
    charged(state, 1, receipt(STEPS, RELEASE))
    state.adopt(base(1, 5), vector(5), 1, None, ())
    state.close()
    of_version_1(tmp_path)
    for epoch in (1, 2):
        state = opened(tmp_path)
        assert (state.base, state.ledger) == (replace(base(1, 5), anchor=1), Ledger.of((STEPS, RELEASE)))
        assert state.begin_epoch() == epoch
        state.close()
    with pytest.raises(ConfigError, match="belongs to the key"):
        opened(tmp_path, key=b"q" * 32)


def test_a_folder_of_version_2_is_taken_over_its_bases_as_anchors(state, tmp_path):
    state.adopt(base(1, 5), vector(5), 1, kept(state, base(1, 5)), ())
    state.adopt(base(2, 6), vector(6), 2, None, ())
    epoch = state.begin_epoch()
    state.close()
    of_version_2(tmp_path)
    state = opened(tmp_path)
    assert (state.base, state.previous) == (replace(base(2, 6), anchor=2), replace(base(1, 5), anchor=1))
    assert (state.line, state.votes, state.sessions) == (FIRST, {}, {})
    assert state.begin_epoch() == epoch + 1
    assert reopened(state, tmp_path).base.is_strong


def test_a_folder_of_version_1_that_was_killed_before_it_said_anything_begins(state, tmp_path):
    state.close()
    of_version_1(tmp_path, facts="true")
    state = opened(tmp_path)
    assert (state.round, state.base.generation, state.begin_epoch()) == (0, 0, 1)
    assert np.array_equal(state.working, vector(0))


@pytest.mark.parametrize("summary", ['{"key": "%s"}' % ("71" * 32), "[]", "{", '{"key": 1}'])
def test_a_summary_tells_whose_a_folder_of_version_1_is(state, tmp_path, summary):
    state.close()
    of_version_1(tmp_path)
    (tmp_path / "summary.json").write_text(summary)
    if "7171" in summary:
        with pytest.raises(ConfigError, match="belongs to the key 7171"):
            opened(tmp_path)
    opened(tmp_path, key=b"q" * 32).close()


def test_an_aggregate_replaces_base_and_spent_and_keeps_fresh_progress_and_the_base_before(state, tmp_path):
    initial = state.base
    charged(state, 1, NOTHING)
    state.trained(vector(3), ())
    new = base(1, 5)
    state.adopt(new, vector(5), 1, kept(state, new), ())
    state = reopened(state, tmp_path)
    assert (state.base, state.previous, state.round, state.spent) == (new, initial, 1, None)
    assert np.array_equal(state.base_vector, vector(5))
    assert np.array_equal(state.working, vector(8))
    assert np.array_equal(state.vector_of(initial), vector(0))
    assert bytes(state.base_piece(initial.digest, 0)) == vector(0).tobytes()
    assert bytes(state.base_piece(new.digest, 0)) == vector(5).tobytes()
    assert state.base_piece(b"?" * 32, 0) is state.base_piece(new.digest, 1) is None
    assert list(state.past) == [new.sid]


def result(sid: bytes) -> ResultCertificate:
    """Makes a masked session's certificate as it is on the wire, with arbitrary parts."""
    head = JoinHead(sid, b"k" * 32, b"h" * 32, 1, bytes(64))
    dealt = Dealt(head, Deal(b"m" * 32, b"c" * 32, b"h" * 32), ())
    release = ReleaseHead(sid, b"k" * 32, 7, b"t" * 32, b"j" * 32, b"s" * 32, bytes(64))
    return ResultCertificate(sid, 7, (b"d" * 32, b"e" * 32), (dealt,), (b"x" * 32,), (release,))


def masked_session(state: State, generation: int = 1) -> Base:
    """Makes a base from a masked session of two chunks; the first one was stored twice."""
    new = base(generation, generation)
    state.keep_parts((TotalPiece(new.sid, 0, b"earlier, and longer"), TotalPiece(new.sid, 1, b"two")))
    state.keep_parts((TotalPiece(new.sid, 0, b"one"),))
    proof = replace(kept(state, new), certificate=result(new.sid))
    state.adopt(new, vector(generation), generation, proof, ())
    return new


def piece_of(state: State, sid: bytes, index: int, of: bytes = NOBODY):
    return answer(state, PieceRequest(sid, of, index, b"q" * 32))


def test_a_certificate_of_a_masked_session_is_there_after_a_restart_and_served(state, tmp_path):
    sid = masked_session(state).sid
    for _ in range(2):
        assert state.sessions[sid].certificate == result(sid)
        assert state.past[sid].base.generation == 0
        assert answer(state, CertificateRequest(sid, b"k" * 32)) == result(sid)
        served = [piece_of(state, sid, index) for index in (0, 1, 2)]
        assert served == [TotalPiece(sid, 0, b"one"), TotalPiece(sid, 1, b"two"), None]
        assert piece_of(state, sid, 0, of=b"k" * 32) is None, "nobody's sum of its own"
        state = reopened(state, tmp_path)


@pytest.mark.parametrize("version", [3, 4])
def test_a_later_folder_keeps_what_counts_and_drops_messages_that_nothing_reads(state, tmp_path, version):
    charged(state, 1, receipt(STEPS, RELEASE))
    header = Sum(bytes(32), b"k" * 32, bytes(32), (), bytes(64))
    state.ban(b"k" * 32, (header, header))
    held = masked_session(state)
    state.trained(vector(4), (STEPS,))
    kept_parts = (state.ledger, state.pending, state.round, state.base.generation, state.banned)
    evidence = state._database.rows("select evidence from banned")
    state.close()
    with database_of(tmp_path) as database:
        database.execute("update session set frame = x'00', certificate = x'00'")
        database.execute("insert into vote values (zeroblob(32), 0, x'00', x'00', x'00', null)")
        database.execute("update fact set value = x'c1' where name = 'line'")
        database.execute("insert or replace into fact values ('gone', ?)", (msgpack.packb([b"e" * 32]),))
        database.execute(f"pragma user_version = {version}")
    state = opened(tmp_path)
    assert (state.ledger, state.pending, state.round, state.base.generation, state.banned) == kept_parts
    assert state._database.rows("select evidence from banned") == evidence
    assert np.array_equal(state.fresh, vector(4))
    assert (state.line, state.gone) == (FIRST, frozenset())
    assert (state.base.digest, state.base.generation) == (held.digest, held.generation)
    assert state.base == replace(held, anchor=held.anchor if version == 4 else held.generation)
    assert (state.sessions, state.votes) == ({}, {})
    assert reopened(state, tmp_path).base == state.base


def test_a_weak_base_of_version_4_stays_weak(state, tmp_path):
    """It gives way to a strong one that another node may hold, as before."""
    weak = replace(base(2, 6), anchor=1)
    state.adopt(weak, vector(6), 2, None, ())
    state.close()
    with database_of(tmp_path) as database:
        database.execute("pragma user_version = 4")
    assert opened(tmp_path).base == weak


def test_pieces_of_a_sum_are_served_under_their_senders_header_and_totals_before_all_is_there(
    state, tmp_path
):
    new = base(1, 1)
    header = Sum(new.sid, b"k" * 32, bytes(32), (bytes(32), bytes(32)), bytes(64))
    pieces = [replace(header, index=index, payload=b"p" * (index + 1)) for index in (0, 1)]
    for part in reversed(pieces):
        state.keep_parts((part,))
    state.adopt(new, vector(1), 1, replace(kept(state, new), certificate=Certificate(new.sid, (header,))), ())
    state = reopened(state, tmp_path)
    assert [piece_of(state, new.sid, index, of=b"k" * 32) for index in (0, 1, 2)] == [*pieces, None]
    assert piece_of(state, new.sid, 0) is piece_of(state, new.sid, 0, of=b"q" * 32) is None
    sid = b"u" * 32  # of a session that still runs; a piece that a kill cut off does not count
    state.keep_parts((TotalPiece(sid, 1, b"chunk"),))
    state.keep_parts((TotalPiece(sid, 0, b""),))
    assert [piece_of(state, sid, index) for index in (0, 1, 2)] == [None, TotalPiece(sid, 1, b"chunk"), None]
    assert answer(state, CertificateRequest(sid, b"q" * 32)) is None
    assert state.kept_part(b"?" * 32, NOBODY, 0) is None
    assert b"?" * 32 not in state._parts, "what somebody made up is not remembered"


def test_certificates_and_parts_are_kept_for_two_generations_and_swept_together(state, tmp_path):
    """So are the parts of a session that never ended."""
    state.keep_parts((TotalPiece(b"u" * 32, 0, b"unfinished"),))
    old, *later = [masked_session(state, generation) for generation in (1, 2, 3)]
    assert state.kept_part(old.sid, NOBODY, 0) is state.kept_part(b"u" * 32, NOBODY, 0) is None
    assert state.kept_part(later[-1].sid, NOBODY, 0) == b"one"
    files = {path.name for path in (tmp_path / "certificates").iterdir()}
    assert files == {f"{new.sid.hex()}.parts" for new in later}
    assert len(vectors_in(tmp_path)) == 2, "vectors that nothing names are deleted"
    assert [*reopened(state, tmp_path).sessions] == [new.sid for new in later]
    assert len(later) == KEPT_SESSIONS


def test_a_certificate_is_not_there_before_its_base_is(state, tmp_path):
    """The disk fails as the session's row is written: no base, no certificate, in memory and on disk."""
    failing(state, "session")
    with disk_full:
        masked_session(state)
    for _ in range(2):
        assert (state.base.generation, state.sessions) == (0, {})
        state = reopened(state, tmp_path)


def test_a_ban_is_remembered_with_its_evidence(state, tmp_path):
    header = Sum(bytes(32), b"k" * 32, bytes(32), (), bytes(64))
    state.ban(b"k" * 32, (header, header))
    records = (signing.evidence(header), signing.evidence(header))
    assert reopened(state, tmp_path).node_state.banned == {b"k" * 32: records}


def test_a_ban_of_an_earlier_version_holds_its_evidence_as_one(state, tmp_path):
    blob = signing.evidence(Sum(bytes(32), b"k" * 32, bytes(32), (), bytes(64))) * 2
    with state._database.step() as connection:
        connection.execute("insert into banned values (?, ?)", (b"k" * 32, blob))
    assert reopened(state, tmp_path).node_state.banned == {b"k" * 32: (blob,)}


OTHER_KEY = (
    f"belongs to the key {'6b' * 8}..., not to {'71' * 8}...: put that key's file back, or give another --out"
)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"task": "ward"}, "holds task 'digits', not 'ward': name another folder"),
        ({"parameters": b"x" * 32}, "was made with other parameters of task 'digits': name another folder"),
        ({"key": b"q" * 32}, OTHER_KEY),
    ],
)
def test_a_folder_of_another_run_is_refused(state, tmp_path, other, line):
    state.close()
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path, **other)
    assert str(caught.value).startswith(f"--out {tmp_path} {line}")


def test_a_damaged_or_missing_vector_is_named_and_a_first_one_is_written_again(state, tmp_path):
    state.close()
    (path,) = vectors_in(tmp_path)
    whole = path.read_bytes()
    path.unlink()
    state = opened(tmp_path)  # all nodes make the initial model alike
    assert np.array_equal(state.working, vector(0))
    assert path.read_bytes() == whole
    state.close()
    path.write_bytes(b"\0" * 4 * D + b"\1\0\0\0")
    with pytest.raises(UserError, match="is damaged: start with another --out"):
        opened(tmp_path)
    path.write_bytes(whole)
    state = opened(tmp_path)
    state.adopt(base(1, 5), vector(5), 1, None, ())
    state.close()
    for path in vectors_in(tmp_path):
        path.unlink()
    with pytest.raises(UserError, match="missing or unreadable"):
        opened(tmp_path)


def test_training_and_catching_up_from_two_threads_lose_no_file(state, tmp_path):
    """A base adopted between a vector's file and its name in the database must not sweep the file away."""

    def train() -> None:
        for number in range(1, 121):
            state.trained(vector(number), ())
            name = hashlib.sha256(vector(number).tobytes()).hexdigest()[:32]
            assert (tmp_path / "vectors" / f"{name}.f32").exists(), number

    def catch_up() -> None:
        for generation in range(1, 121):
            state.adopt(base(generation, -generation), vector(-generation), generation, None, ())

    with ThreadPoolExecutor(2) as threads:
        for running in [threads.submit(train), threads.submit(catch_up)]:
            running.result()
    again = reopened(state, tmp_path)
    assert np.array_equal(again.fresh, vector(120))
    assert np.array_equal(again.base_vector, vector(-120))


def spending(folder) -> SpendFile:
    return SpendFile(folder / "k", KEY, "digits")


def with_file(folder, out="out") -> State:
    (folder / out).mkdir(exist_ok=True)
    return opened(folder / out, spending=spending(folder))


def test_a_charge_is_in_the_file_on_disk_before_it_is_in_the_database(tmp_path, monkeypatch):
    state = with_file(tmp_path)
    state.trained(vector(1), ())
    steps = waits_for_the_disk(state, monkeypatch)
    state._database._connection.set_trace_callback(lambda statement: steps.append(statement.split()[0]))
    state.spend(b"s" * 32, 1, 0, 1000, receipt(STEPS, RELEASE))
    told = [step for step in steps if step in {"k.spent", tmp_path.name, "insert", "commit"}]
    assert told[:3] == ["k.spent", tmp_path.name, "insert"]
    assert told[-1] == "commit"
    assert list(spending(tmp_path).charges().values()) == [Charge(b"s" * 32, 1, 1000, (STEPS, RELEASE))]


def test_an_offer_that_the_database_did_not_take_counts_after_a_restart_once(tmp_path):
    """It never left the node, but an older copy of the database could not show that."""
    state = with_file(tmp_path)
    state.trained(vector(1), (STEPS,))
    failing(state, "ledger")
    with disk_full:
        state.spend(b"s" * 32, 1, 0, 1000, receipt(STEPS, RELEASE))
    state._database._connection.execute("drop trigger full")
    state.close()
    for recovered in (1, 0, 0):
        state = with_file(tmp_path)
        assert (state.recovered, state.offers) == (recovered, 1)
        assert private_parts(state) == (Ledger.of((STEPS, RELEASE)), (STEPS,), ())
        state.close()


ROW = Unit("one record", Relation.ADD_REMOVE, "L2")
NINE, ONE = (Terms("distributed-dp-sgd", ROW, honest) for honest in (9, 1))


def of_task(folder, terms: Terms | None, out="out") -> State:
    (folder / out).mkdir(exist_ok=True)
    return State(folder / out, OWNER, vector(0), spending(folder), terms=terms)


def sized(terms: Terms | None, *events: Event) -> Ledger:
    return Ledger.of(replace(event, terms=terms) for event in events)


def test_each_charge_says_what_it_was_sized_for_and_a_task_for_others_changes_nothing_about_it(tmp_path):
    with closing(of_task(tmp_path, NINE, "a")) as state:
        charged(state, 1, receipt(STEPS, RELEASE), pending=(STEPS,))
        state.bind(OpenVote(SID, 0), AHEAD)
        assert state.ledger == sized(NINE, STEPS, STEPS, RELEASE)
    for _ in range(2):
        with closing(of_task(tmp_path, ONE, "b")) as other:
            assert other.ledger == sized(NINE, STEPS, STEPS, RELEASE)
    with closing(of_task(tmp_path, ONE, "b")) as other:
        other.charge(b"n" * 32, 3, 1000, receipt(RELEASE))
        assert other.charged == ChargeCount(2, 2), "the count is of events, whatever their terms"
        both = other.ledger
    assert both == sized(NINE, STEPS, STEPS, RELEASE).adding([replace(RELEASE, terms=ONE)])
    with closing(of_task(tmp_path, NINE, "a")) as state:
        assert state.ledger == both


def test_a_folder_of_before_had_these_terms_and_tells_the_spend_file(tmp_path):
    """Its parameters are the same, so the task is the one with which it charged."""
    with closing(of_task(tmp_path, None, "a")) as before:
        charged(before, 1, receipt(STEPS))
        charged(before, 2, NOTHING)
        before._database._connection.execute("drop table terms")
    (line,) = spending(tmp_path).charges().values()
    assert line.terms is None
    for _ in range(2):
        with closing(of_task(tmp_path, NINE, "a")) as state:
            assert (state.ledger, state.recovered) == (sized(NINE, STEPS), 0)
            assert state.charged == ChargeCount(1, 0)
    assert [one.terms for one in spending(tmp_path).charges().values()] == [NINE]
    assert len(spending(tmp_path).path.read_bytes().splitlines()) == 2, "once, beside the older line"
    with closing(of_task(tmp_path, ONE, "b")) as other:
        assert other.ledger == sized(NINE, STEPS)


def test_a_charge_of_before_whose_folder_is_lost_counts_for_any_unit_until_the_folder_is_back(tmp_path):
    with closing(of_task(tmp_path, None, "a")) as before:
        charged(before, 1, receipt(STEPS))
    for _ in range(2):
        with closing(of_task(tmp_path, ONE, "b")) as other:
            assert other.ledger == sized(unknown_terms(ONE), STEPS)
    assert [one.terms for one in spending(tmp_path).charges().values()] == [None]
    of_task(tmp_path, NINE, "a").close()
    for _ in range(2):
        with closing(of_task(tmp_path, ONE, "b")) as other:
            assert other.ledger == sized(NINE, STEPS)


def test_what_others_add_to_the_file_meanwhile_counts_before_the_next_offer_and_with_it(tmp_path):
    """As a node of an earlier version does, which locks no key."""
    state, other = of_task(tmp_path, NINE, "a"), SpendFile(tmp_path / "k", KEY, "digits")
    assert not state.take_in()
    other.add((Charge(b"1" * 32, 1, 1, (STEPS,), ONE), Charge(b"2" * 32, 1, 1, (RELEASE,))))
    assert (state.take_in(), state.take_in()) == (True, False)
    expected = sized(ONE, STEPS).adding(sized(unknown_terms(NINE), RELEASE).counts[0][:1])
    assert state.ledger == expected
    other.add((Charge(b"3" * 32, 2, 2, (STEPS,), ONE),))
    state.charge(b"m" * 32, 2, 2, receipt(STEPS))
    assert state.ledger == expected.adding([replace(STEPS, terms=ONE), replace(STEPS, terms=NINE)])
    other.add((Charge(b"4" * 32, 3, 3, (STEPS,), ONE),))
    state.bind(OpenVote(SID, 0), AHEAD)
    assert (state.charged, state.offers) == (ChargeCount(5, 1), 6)
    spending(tmp_path).path.unlink()
    other.add((Charge(b"5" * 32, 4, 4, (STEPS,), ONE),))
    assert state.take_in(), "another file in its place is read from its beginning"
    ledger = state.ledger
    state.close()
    with closing(of_task(tmp_path, NINE, "a")) as again:
        assert (again.ledger, again.recovered) == (ledger, 0)


def waits_for_the_disk(state: State, monkeypatch) -> list[str]:
    """Returns the list that receives a name whenever the disk is waited for: a file's, or state.db's."""
    waits, fsync, mode = [], os.fsync, ["full"]

    def syncing(descriptor: int) -> None:
        fsync(descriptor)
        waits.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def executing(statement: str) -> None:
        if statement.startswith("pragma synchronous"):
            mode.append(statement.rsplit(maxsplit=1)[-1])
        if statement == "commit" and mode[-1] == "full":
            waits.append("state.db")

    monkeypatch.setattr(os, "fsync", syncing)
    state._database._connection.set_trace_callback(executing)
    return waits


AHEAD = Charge(b"a" * 32, 2, 1000, (STEPS,))


def test_a_vote_and_the_charge_ahead_are_there_after_a_restart_and_wait_for_the_disk_once(
    tmp_path, monkeypatch
):
    state = with_file(tmp_path)
    state.charge(b"s" * 32, 1, 1000, receipt(STEPS))
    waits = waits_for_the_disk(state, monkeypatch)
    state.bind(OpenVote(SID, 0), AHEAD)
    assert waits == ["state.db"]
    assert state.ledger == Ledger.of((STEPS, STEPS))
    assert list(spending(tmp_path).charges()) == [b"s" * 32, AHEAD.sid]
    state.close()
    again = with_file(tmp_path)
    assert (again.recovered, again.offers, list(again.votes)) == (0, 2, [SID])
    assert again.ledger == Ledger.of((STEPS, STEPS))


def test_a_vote_that_is_not_stored_leaves_a_charge_at_most(tmp_path):
    state = with_file(tmp_path)
    failing(state, "vote")
    with disk_full:
        state.bind(OpenVote(SID, 0), AHEAD)
    assert (state.votes, state.offers, state.ledger) == ({}, 0, Ledger())
    state._database._connection.execute("drop trigger full")
    state.close()
    again = with_file(tmp_path)
    assert (again.votes, again.recovered, again.ledger) == ({}, 1, Ledger.of((STEPS,)))


def test_a_power_failure_takes_no_charge_whose_vote_is_stored(tmp_path):
    """The file's last lines were never waited for, so some may be gone or torn; the ledger has them."""
    state = with_file(tmp_path)
    state.charge(b"s" * 32, 1, 1000, receipt(STEPS))
    on_disk = spending(tmp_path).path.read_bytes()
    state.bind(OpenVote(SID, 0), AHEAD)
    torn = spending(tmp_path).path.read_bytes()
    state.close()
    for left in (on_disk, torn[:-7], on_disk + bytes(40)):
        spending(tmp_path).path.write_bytes(left)
        again = with_file(tmp_path)
        assert again.ledger == Ledger.of((STEPS, STEPS))
        again.close()
        assert list(spending(tmp_path).charges()) == [b"s" * 32, AHEAD.sid]


def test_a_ledger_that_the_file_lacks_is_written_into_it_but_not_what_is_charged_nothing(state, tmp_path):
    charged(state, 1, receipt(STEPS))
    charged(state, 2, NOTHING)
    state.close()
    state = opened(tmp_path, spending=spending(tmp_path))
    charged(state, 3, NOTHING)
    assert (state.recovered, list(spending(tmp_path).charges())) == (0, [bytes([1]) * 32])


def test_every_start_has_an_epoch_of_its_own_and_one_that_is_not_on_disk_is_none(state, tmp_path):
    assert (state.epoch, state.begin_epoch(), state.epoch) == (0, 1, 1)
    state = reopened(state, tmp_path)
    assert (state.epoch, state.begin_epoch()) == (1, 2)
    assert (state.raise_epoch(9), state.epoch) == (10, 10)
    assert state.raise_epoch(3) == 11, "it never comes down"
    state = reopened(state, tmp_path)
    assert state.begin_epoch() == 12
    failing(state, "fact")
    with disk_full:
        state.raise_epoch(50)
    assert state.epoch == 12


def size_of(folder) -> int:
    return sum(
        path.stat().st_size for path in folder.rglob("*") if path.is_file() and "state" not in path.name
    )


def fails(state: State, number: int) -> None:
    """Ends a round with the node's own update: trained, offered, and its parts kept."""
    sid = number.to_bytes(32, "big")
    state.trained(vector(number), ())
    state.spend(sid, number, 0, 1000, NOTHING)
    state.keep_parts([TotalPiece(sid, index, bytes(10_000)) for index in range(3)])
    state.fell_back(ending(number))


def test_rounds_that_fail_leave_no_more_than_one_does(state, tmp_path):
    fails(state, 1)
    after_one = size_of(tmp_path)
    for number in range(2, 6):
        fails(state, number)
        assert state.kept_part(number.to_bytes(32, "big"), NOBODY, 2) == bytes(10_000), "others may ask yet"
    assert size_of(tmp_path) == after_one
    assert len(vectors_in(tmp_path)) == 2, "the base, and what is spent"
    state = reopened(state, tmp_path)
    assert size_of(tmp_path) < 3 * 4 * D, "after a start nobody asks for parts of the round before"
    assert np.array_equal(state.spent, vector(sum(range(1, 6))))


def test_a_piece_of_the_base_before_costs_a_piece(tmp_path):
    """The whole file is hashed once; later changes behind a piece do not matter to that piece."""
    long = np.arange(PIECE_WORDS + 10, dtype=np.float32)
    state = State(tmp_path, OWNER, long, None)
    before = state.base.digest
    after = Base(1, base_digest(PARAMETERS, 1, long + 1), 3, b"\1" * 32)
    state.adopt(after, long + 1, 1, None, ())
    assert bytes(piece_of(state, before, 0, of=b"").payload) == long[:PIECE_WORDS].tobytes()
    assert bytes(piece_of(state, before, 1, of=b"").payload) == long[PIECE_WORDS:].tobytes()
    assert piece_of(state, before, 2, of=b"") is None
    assert bytes(piece_of(state, after.digest, 1, of=b"").payload)[:4] != b""
    (path,) = (one for one in vectors_in(tmp_path) if one.read_bytes() == long.tobytes())
    with path.open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"????")
    assert bytes(piece_of(state, before, 0, of=b"").payload) == long[:PIECE_WORDS].tobytes()
    path.write_bytes(b"short")
    assert piece_of(state, before, 0, of=b"") is None
    path.unlink()
    assert piece_of(state, before, 0, of=b"") is None


def test_a_base_before_that_is_damaged_before_its_first_piece_is_not_served(state, tmp_path):
    for generation in (1, 2):
        before = state.base
        state.adopt(base(generation, generation), vector(generation), generation, None, ())
    for path in vectors_in(tmp_path):
        path.write_bytes(vector(7).tobytes())
    assert state.base_piece(before.digest, 0) is None


def refused(folder) -> State:
    """Makes a state that accepted base 1 and refused base 2, with progress that was never offered."""
    state = opened(folder)
    for generation in (1, 2):
        state.adopt(base(generation, generation), vector(generation), generation, None, ())
        assert state.set_accepted(state.base, generation == 1)
    return state


def facing(state: State) -> tuple[object, ...]:
    """Returns what a gate's decision changes."""
    back = state.way_back
    return state.working.tolist(), None if back is None else back.tolist(), state.unchecked is None


def test_bases_that_are_refused_give_way_to_the_last_good_one_until_there_is_no_gate(tmp_path):
    state = refused(tmp_path)
    for generation in (2, 3, 4):
        if generation > 2:
            state.adopt(base(generation, generation), vector(generation), generation, None, ())
            state.set_accepted(state.base, False)
        for _ in range(2):
            assert facing(state) == ([1.0] * D, [1.0 - generation] * D, True)
            assert np.array_equal(state.base_vector, vector(generation)), "what was agreed stays agreed"
            assert np.array_equal(state.last_good, vector(1))
            state = reopened(state, tmp_path)
    assert len(vectors_in(tmp_path)) == 3, "base, the one before, the last good one"
    state.without_gate()
    for _ in range(2):
        assert facing(state) == ([4.0] * D, None, False)
        assert state.last_good is None
        state = reopened(state, tmp_path)


def test_every_step_of_a_way_back_is_there_after_a_restart(tmp_path):
    """Killed after any of them, a node resumes from the same working model with the same way back."""
    state = refused(tmp_path)
    steps = [
        (lambda: state.trained(vector(8), ()), 9, -1),
        (lambda: state.spend(b"s" * 32, 3, 0, 1000, NOTHING), 9, -1),
        (lambda: state.fell_back(ending(3)), 9, -1),
        (lambda: state.trained(vector(16), ()), 25, -1),
        (lambda: state.spend(b"t" * 32, 4, 0, 1000, NOTHING), 25, -1),
        (lambda: state.adopt(base(3, 4), vector(4), 4, None, ()), 4, None),
        (lambda: state.set_accepted(state.base, False), 1, -3),
        (lambda: state.adopt(base(4, 0.5), vector(0.5), 5, None, ()), 0.5, None),
        (lambda: state.set_accepted(state.base, True), 0.5, None),
    ]
    for number, (step, working, back) in enumerate(steps):
        step()
        if number == 1:
            assert np.array_equal(state.spent, vector(8)), "the way back is no part of it"
        for _ in range(2):
            expected = [working] * D, None if back is None else [back] * D
            assert facing(state)[:2] == expected, number
            state = reopened(state, tmp_path)
    assert np.array_equal(state.last_good, vector(0.5))


def test_fresh_progress_survives_a_refusal(state, tmp_path):
    state.set_accepted(state.base, True)
    state.trained(vector(3), (STEPS,))
    state.adopt(base(1, 5), vector(5), 0, None, ())
    state.set_accepted(state.base, False)
    state = reopened(state, tmp_path)
    assert (state.working.tolist(), state.pending) == ([3.0] * D, (STEPS,))


def test_a_judgement_of_a_base_that_is_gone_changes_nothing(tmp_path):
    state = refused(tmp_path)
    old = state.base
    state.adopt(base(3, 4), vector(4), 3, None, ())
    assert not state.set_accepted(old, True)
    assert facing(state) == ([4.0] * D, None, False)
    assert np.array_equal(state.last_good, vector(1))


def test_a_judgement_is_whole_or_not_there(state, tmp_path):
    """The disk fails between its two facts."""
    state.set_accepted(state.base, True)
    state.adopt(base(1, 5), vector(5), 1, None, ())
    failing(state, "fact", "when new.name = 'good'")
    with disk_full:
        state.set_accepted(state.base, True)
    for _ in range(2):
        assert facing(state) == ([5.0] * D, None, False), "not judged, in memory and on disk"
        state = reopened(state, tmp_path)


def test_a_refusal_with_no_good_base_before_it_changes_nothing(state):
    state.set_accepted(state.base, False)
    assert facing(state) == ([0.0] * D, None, True)
    assert state.last_good is None


GROUP = Group((), 0, bytes(32), signature=bytes(64))
SID = b"s" * 32


def bound(value: float) -> OpenVote:
    """Stores a vote in a session with summed shares, and this node's own sum in two pieces."""
    pieces = (vector(value).tobytes(), vector(value + 1).tobytes())
    header = Sum(SID, b"p" * 32, bytes(32), (bytes(32), bytes(32)), bytes(64))
    parts = tuple(replace(header, index=index, payload=piece) for index, piece in enumerate(pieces))
    return OpenVote(SID, 0, GROUP, Certificate(SID, (header,)), parts=parts)


def votes(state: State, parts: int = 2) -> None:
    state.keep_parts(bound(1).parts[:parts])
    state.bind(bound(1))


def test_a_vote_is_there_after_a_restart_with_its_own_sum_if_that_is_whole(state, tmp_path):
    votes(state, parts=1)
    assert reopened(state, tmp_path).votes[SID].parts == ()
    state = opened(tmp_path)
    votes(state)
    state = reopened(state, tmp_path)
    assert state.votes == {SID: bound(1)} == state.node_state.votes
    state.unbind(SID)  # it can count no more
    assert not state.votes
    assert not reopened(state, tmp_path).votes


def test_a_masked_vote_and_a_resignation_are_there_after_a_restart(state, tmp_path):
    head = ReleaseHead(SID, b"p" * 32, 7, bytes(32), bytes(32), bytes(32), bytes(64))
    proof = replace(result(SID), secrets=(), releases=(head,))
    masked = OpenVote(SID, 3, GROUP, proof, Release(head, (bytes(32),)))
    state.bind(masked)
    state.bind(OpenVote(RESIGNED, 3))
    assert reopened(state, tmp_path).votes == {SID: masked, RESIGNED: OpenVote(RESIGNED, 3)}


def test_a_vote_is_freed_by_a_base_of_a_higher_anchor_and_by_that_alone(state, tmp_path):
    state.bind(OpenVote(RESIGNED, 0))
    state.adopt(base(1, 5), vector(5), 1, None, (), FIRST)  # a weak one, on the same anchor
    assert reopened(state, tmp_path).votes
    state = opened(tmp_path)
    state.adopt(replace(base(2, 6), anchor=2), vector(6), 2, None, (), Line(2, of_keys([b"k" * 32])))
    assert not state.votes
    assert not reopened(state, tmp_path).votes


def test_ones_own_sum_is_on_disk_before_the_vote_that_it_completes(state, tmp_path, monkeypatch):
    """Nobody else has it: a vote that a power failure kept without it would stay bound."""
    waits = waits_for_the_disk(state, monkeypatch)
    votes(state)
    assert waits == [f"{SID.hex()}.parts", "certificates", "state.db"]


def test_the_base_that_an_open_vote_builds_on_stays_whatever_comes_meanwhile(state, tmp_path):
    """Weak bases may come and go before the voters meet again."""
    on = state.base
    key = NodeKey(bytes([1]) * 32)
    group = replace(GROUP, readys=(ready(key, key.public, base=on),))
    state.keep_parts(bound(1).parts)
    state.bind(replace(bound(1), group=group))
    for generation in (1, 2, 3):
        state.adopt(base(generation, generation), vector(generation), generation, None, ())
    assert np.array_equal(state.vector_of(on), vector(0))
    state = reopened(state, tmp_path)
    assert np.array_equal(state.vector_of(on), vector(0))
    state.unbind(SID)
    state.adopt(base(4, 4), vector(4), 4, None, ())
    assert state.vector_of(on) is None


def test_the_parts_of_a_session_stay_as_long_as_a_vote_is_bound_to_it(state, tmp_path):
    votes(state)
    for round in (1, 2):
        state.fell_back(ending(round))
    assert state.kept_part(SID, b"p" * 32, 1) is not None
    state.unbind(SID)
    for round in (3, 4):
        state.fell_back(ending(round))
    assert state.kept_part(SID, b"p" * 32, 1) is None


def test_the_line_of_a_base_is_there_after_a_restart_and_served_link_by_link(state, tmp_path):
    made, weak = Link(GROUP, (result(SID),), ()), Link(GROUP, (), (Certificate(SID, ()),))
    strong = Line(1, of_keys([b"a" * 32, b"b" * 32]), (made,))
    state.adopt(replace(base(1, 5), anchor=1), vector(5), 1, None, (), strong)
    then = replace(strong, weak=weak)
    state.adopt(replace(base(2, 6), anchor=1), vector(6), 2, None, (), then)
    state = reopened(state, tmp_path)
    assert state.line == then == state.node_state.line

    def asked(digest, index):
        return answer(state, PieceRequest(digest, LINEAGE, index, b"q" * 32))

    assert asked(base(2, 6).digest, 1) == LineagePiece(base(2, 6).digest, 1, 2, (weak,))
    assert asked(base(2, 6).digest, 2) == LineagePiece(base(2, 6).digest, 2, 2, ())
    assert asked(base(1, 5).digest, 0) == LineagePiece(base(1, 5).digest, 0, 1, (made,))
    assert asked(base(0, 0).digest, 0) is None


# -- counts of charges ---------------------------------------------------------------------------------


def counted(mark: int, count: int) -> Charged:
    """Returns a count of the key of so many bytes `mark`; its signature is checked elsewhere."""
    return Charged(bytes([mark]) * 32, "digits", ChargeCount(count, 0), bytes(64))


def test_the_counts_of_others_survive_in_the_order_in_which_they_changed(state, tmp_path):
    for one in (counted(1, 1), counted(2, 1), counted(3, 1), counted(1, 2)):
        state.keep_charged(one, None)
    state.keep_charged(counted(4, 9), counted(2, 1).key)
    kept_ones = [counted(3, 1), counted(1, 2), counted(4, 9)]
    assert [*state.counts.values()] == kept_ones
    again = reopened(state, tmp_path)
    assert [*again.counts.values()] == [*again.node_state.counts.values()] == kept_ones


def test_a_folder_of_an_older_version_keeps_counts_from_now_on(state, tmp_path):
    state._database._connection.execute("drop table charged")
    of_version_2(tmp_path)
    older = reopened(state, tmp_path)
    older.keep_charged(counted(1, 1), None)
    assert [*reopened(older, tmp_path).counts.values()] == [counted(1, 1)]


def test_a_folder_of_before_keeps_its_split_once_something_was_learned(state, tmp_path):
    """A new folder has a mark; one of before gets it if nothing was learned in it."""

    def without_mark():
        with database_of(tmp_path) as database:
            database.execute("delete from fact where name = 'split'")
        return splits_as_before(tmp_path)

    assert not splits_as_before(tmp_path / "none")
    assert not without_mark()
    again = reopened(state, tmp_path)
    again.trained(vector(1), ())
    assert not splits_as_before(tmp_path)
    assert without_mark()
    last = reopened(again, tmp_path)
    assert splits_as_before(tmp_path), "opening it changes nothing"
    last.close()
    (tmp_path / "state.db").write_bytes(b"no database")
    assert not splits_as_before(tmp_path), "whoever opens it says what is wrong"
