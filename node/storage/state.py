"""What survives a crash: base, spent, fresh, the round, the ledger, certificates, bans.

What must stay true, also if the process is killed between any two instructions:
- an offer's charge is in the key's spend file before it is in the ledger (node.storage.spend_file);
- an offer is in the ledger, and its vector moved from `fresh` to `spent`, before its first byte leaves;
- the base that the database names is on disk, whole; so is the one before it;
- what is spent never becomes fresh again;
- the last base that this node's loss gate took for good is on disk, whole, for as long as there is a gate;
- what training has cost stands beside `fresh` (`pending`), and is charged with the offer that holds it;
- how the last round ended stands beside its number (`ending`), until the next one has ended;
- each start has an epoch above all that this folder has had before (`epoch`);
- a vote is on disk before the first byte of it leaves, with what it takes to finish its session.

Training stores from a thread of its own, while other threads catch up and serve: one step at a time, and
a step is the vector's file, the database, and what is remembered here.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from itertools import groupby
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgpack
import numpy as np

from mechanisms.accounting.ledger import Event, Ledger, event_from_text, to_text
from mechanisms.mechanism import Memory
from node.errors import ConfigError
from node.storage.database import Database, Fact, create_database
from node.storage.folder_lock import STATE, SUMMARY
from node.storage.piece_file import PieceFile
from node.storage.records import Ending, Receipt
from node.storage.spend_file import Charge, SpendFile
from node.storage.vector_files import Floats, VectorFiles
from protocol.actions import OpenVote
from protocol.quorum.electorate import Electorate
from protocol.quorum.lineage import FIRST, Line
from protocol.swarm.node_state import NodeState
from protocol.swarm.recovery.fetch import Past
from protocol.vectors.pieces import base_digest, piece, piece_count, raw
from protocol.wire import codec
from protocol.wire.masked_messages import Release, ResultCertificate, TotalPiece
from protocol.wire.messages import NO_SID, Base, Certificate, Group, Key, LineagePiece, Link, Sid, Sum

P = ParamSpec("P")
T = TypeVar("T")

KEPT_SESSIONS = 2


@dataclass(frozen=True)
class Kept:
    """A session whose certificate this node can show."""

    group: Group
    base: Base
    certificate: Certificate | ResultCertificate


def _written(events: Iterable[Event]) -> str:
    return "\n".join(to_text(event) for event in events)


def _read(text: object) -> tuple[Event, ...]:
    return tuple(event_from_text(line) for line in text.splitlines()) if isinstance(text, str) else ()


def _packed(base: Base) -> bytes:
    return bytes(msgpack.packb([base.generation, base.digest, base.members, base.sid, base.anchor]))


def base_in(data: bytes) -> Base:
    """A base as it is stored."""
    return Base(*msgpack.unpackb(data))


def _anchored(data: bytes) -> bytes:
    """A base as versions before wrote it: what was agreed then is where anchors begin."""
    generation, digest, members, sid = msgpack.unpackb(data)
    return _packed(Base(generation, digest, members, sid, generation))


def _packed_line(line: Line) -> bytes:
    electors = None if line.electors is None else [list(line.electors.members), line.electors.least]
    links = [_packed_link(link) for link in line.links]
    return bytes(
        msgpack.packb([line.anchor, electors, links, _packed_link(line.weak) if line.weak else None])
    )


def _packed_link(link: Link) -> bytes:
    return codec.encode(LineagePiece(NO_SID, 0, 1, (link,))).join()


def gone_in(data: object) -> frozenset[bytes]:
    """The electors that a folder's owner said are gone for good; nobody, where it has no such word."""
    return frozenset(msgpack.unpackb(data)) if isinstance(data, bytes) else frozenset()


def line_in(data: object) -> Line:
    """A line as it is stored; that of a first base where none is."""
    if not isinstance(data, bytes):
        return FIRST
    anchor, electors, links, weak = msgpack.unpackb(data)
    members = None if electors is None else Electorate(tuple(electors[0]), electors[1])
    known = tuple(_link_in(link) for link in links)
    return Line(anchor, members, known, None if weak is None else _link_in(weak))


def _link_in(data: bytes) -> Link:
    piece_of = codec.decode(data)
    if not isinstance(piece_of, LineagePiece):
        raise TypeError("a link expected in state.db")
    return piece_of.link[0]


def _alone(method: Callable[Concatenate[State, P], T]) -> Callable[Concatenate[State, P], T]:
    """The method runs while no other thread is in one of these methods."""

    @wraps(method)
    def alone(self: State, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class State:
    """A node's memory in its folder. Vectors are (d,) float32; None stands for zeros."""

    def __init__(
        self,
        folder: Path,
        task: str,
        parameters: bytes,
        initial: Floats,
        key: Key,
        spending: SpendFile | None,
    ) -> None:
        """Open, or begin with `initial` as the first base. ConfigError for another task's or key's folder.

        `spending`: where the key's charges are kept besides; None where nothing is ever charged.
        """
        self.dimension = len(initial)
        self._lock = threading.RLock()
        self._spending = spending
        self._certificates = folder / "certificates"
        self._parts: dict[Sid, PieceFile] = {}
        self._unfinished: set[str] = set()
        """Parts of no session that is kept, as they were when the last round ended."""
        first = _first_facts(task, parameters, initial, key)
        if not (folder / STATE).exists():
            create_database(folder / STATE, first)
        self._database = Database(folder / STATE)
        try:
            if self._database.is_older:
                self._take_over(folder, key, first)
            self._check(folder, task, parameters, key)
            self._files = VectorFiles(folder / "vectors")
            self._certificates.mkdir(exist_ok=True)
            self._load(initial)
            self.recovered = self._reconcile()
            self._tidy(self._certificate_files())
        except BaseException:
            self._database.close()
            raise

    def _take_over(self, folder: Path, key: Key, first: dict[str, Fact]) -> None:
        """Make a version before into this one. Version 1 did not say whose it is, but what it holds does."""
        if self._database.fact("task") is None:  # killed at its first start, before there was anything
            self._database.upgrade(first)
            return
        bases = {name: self._database.fact(name) for name in ("base", "previous")}
        anchored: dict[str, Fact] = {
            name: _anchored(base) for name, base in bases.items() if isinstance(base, bytes)
        }
        if self._database.version > 1:
            self._database.upgrade(anchored)
            return
        groups = self._database.rows("select frame from session")
        members = {key for (frame,) in groups for key in _members_of_version_1(_bytes(frame))}
        named = _key_in(folder / SUMMARY)
        if (named is not None and named != key.hex()) or (members and key not in members):
            raise ConfigError(_other_key(folder, named, key))
        self._database.upgrade({**anchored, "key": key, "epoch": 0})

    def _check(self, folder: Path, task: str, parameters: bytes, key: Key) -> None:
        theirs = str(self._database.fact("task"))
        if theirs != task:
            raise ConfigError(f"--out {folder} holds task '{theirs}', not '{task}': name another folder")
        owner = self._blob("key")
        if owner != key:
            raise ConfigError(_other_key(folder, owner.hex(), key))
        if self._database.fact("parameters") != parameters:
            raise ConfigError(
                f"--out {folder} was made with other parameters of task '{task}': name another folder, or "
                "start with the same --set and task file as before"
            )

    def _load(self, initial: Floats) -> None:
        self.round = int(self._number("round"))
        self.epoch = int(self._number("epoch"))
        """Of this start, once `begin_epoch` was called: higher than that of any start before."""
        self.base = base_in(self._blob("base"))
        name = str(self._database.fact("base_file"))
        if self.base.generation == 0 and not self._files.has(name) and self._files.name_of(initial) == name:
            self._files.put(initial)  # killed at the first start, between the database and this
        self.base_vector = self._files.get(name, self.dimension)
        previous = self._database.fact("previous")
        self.previous = base_in(previous) if isinstance(previous, bytes) else None
        self.line = line_in(self._database.fact("line"))
        self._previous_line = line_in(self._database.fact("previous_line"))
        self.gone = gone_in(self._database.fact("gone"))
        """The electors of this anchor that the owner said are gone for good."""
        self._judged = self._database.fact("judged")
        self.spent = self._vector("spent")
        self.fresh = self._vector("fresh")
        self.pending = _read(self._database.fact("pending"))
        memory = self._database.fact("memory")
        ending = self._database.fact("ending")
        self.ending = Ending.from_text(ending) if isinstance(ending, str) else None
        self.memory: Memory = tuple(map(tuple, json.loads(memory))) if isinstance(memory, str) else ()
        self.ledger = Ledger.of(event for charge in self._charges() for event in charge.events)
        self.sessions = self._load_sessions()
        self.votes = self._load_votes()
        self.banned = {
            bytes(key) for (key,) in self._database.rows("select key from banned") if isinstance(key, bytes)
        }

    def _charges(self) -> list[Charge]:
        """The ledger as it is on disk."""
        rows = self._database.rows("select sid, round, at_ms, events from ledger")
        return [
            Charge(_bytes(sid), int(str(round)), int(str(at_ms)), _read(events))
            for sid, round, at_ms, events in rows
        ]

    def _reconcile(self) -> int:
        """Ledger and spend file know the same from now on, all that either of them knew.

        How many offers the ledger did not know: it was put back from an older copy, or is a new one, or the
        process was killed between the two. Such an offer counts, even one that never left.
        """
        if self._spending is None:
            return 0
        here, there = self._charges(), self._spending.charges()
        self._spending.add(charge for charge in here if charge.events and charge.sid not in there)
        missing = [charge for sid, charge in there.items() if sid not in {charge.sid for charge in here}]
        if missing:
            rows = [(one.sid, one.round, one.at_ms, _written(one.events)) for one in missing]
            with self._database.step() as connection:
                connection.executemany("insert into ledger values (?, ?, ?, 0, ?, null, null)", rows)
            self.ledger = self.ledger.adding(event for one in missing for event in one.events)
        return len(missing)

    def _number(self, name: str) -> int:
        value = self._database.fact(name)
        return value if isinstance(value, int) else 0

    def _blob(self, name: str) -> bytes:
        value = self._database.fact(name)
        return value if isinstance(value, bytes) else b""

    def _vector(self, name: str) -> Floats | None:
        file = self._database.fact(name)
        return self._files.get(file, self.dimension) if isinstance(file, str) else None

    # -- reading -----------------------------------------------------------------------------------

    @property
    def node_state(self) -> NodeState:
        """Where a session begins."""
        return NodeState(
            round=self.round,
            base=self.base,
            previous=self.previous,
            banned=set(self.banned),
            epoch=self.epoch,
            line=self.line,
            votes=dict(self.votes),
            gone=self.gone,
        )

    @property
    @_alone
    def working(self) -> Floats:
        """Base + spent + fresh: what the node trains on; it never leaves the node.

        Where the gate refused the base, the last good base stands in its place.
        """
        total = self._instead()
        if total is None:
            total = self.base_vector.copy()
        for part in (self.spent, self.fresh):
            if part is not None:
                total += part
        return total

    def _instead(self) -> Floats | None:
        """The last good base, read anew, where the gate refused the base; else None."""
        good, here = self._database.fact("good"), self._database.fact("base_file")
        refused = self._judged == self.base.digest and good != here
        return self._vector("good") if refused else None

    @property
    @_alone
    def way_back(self) -> Floats | None:
        """From the base to the last good one, where the gate refused the base; both are the swarm's."""
        good = self._instead()
        return None if good is None else np.subtract(good, self.base_vector, out=good)

    @property
    @_alone
    def unjudged(self) -> tuple[Base, Floats] | None:
        """The base that a gate has not judged yet."""
        return None if self._judged == self.base.digest else (self.base, self.base_vector)

    @property
    @_alone
    def last_good(self) -> Floats | None:
        """The last base that a gate took for good; None where there was none."""
        return self._vector("good")

    @property
    @_alone
    def past(self) -> dict[Sid, Past]:
        """The sessions whose certificates can be served."""
        return {sid: Past(kept.group, kept.base, {}) for sid, kept in self.sessions.items()}

    @_alone
    def vector_of(self, base: Base) -> Floats | None:
        """The vector of the current base, of the one before it, or of one that an open vote builds on."""
        if base == self.base:
            return self.base_vector
        name = self._file_of(base)
        return None if name is None else self._files.get(name, self.dimension)

    def _file_of(self, base: Base) -> str | None:
        """Which file holds a base that is still here."""
        names = [self._database.fact(name) for name in ("base_file", "previous_file")]
        known = {held: name for held, name in zip((self.base, self.previous), names, strict=True) if held}
        found = known.get(base)
        return found if isinstance(found, str) else self._voted_on().get(base)

    def _voted_on(self) -> dict[Base, str]:
        """The bases that open votes build on, and their files."""
        rows = self._database.rows("select sid, base_file from vote where base_file is not null")
        files = {_bytes(sid): str(name) for sid, name in rows}
        groups = {sid: vote.group for sid, vote in self.votes.items()}
        return {group.base: files[sid] for sid, group in groups.items() if group is not None and sid in files}

    @_alone
    def base_piece(self, digest: bytes, index: int) -> bytes | memoryview | None:
        """A piece of the current base or the one before it, to serve it; None for any other."""
        if index >= piece_count(self.dimension):
            return None
        part = piece(self.dimension, index)
        if digest == self.base.digest:
            return raw(self.base_vector, part)
        name = self._database.fact("previous_file")
        if self.previous is None or digest != self.previous.digest or not isinstance(name, str):
            return None
        return self._files.piece(name, self.dimension, part)

    @_alone
    def link_to(self, digest: bytes, index: int) -> LineagePiece | None:
        """A link of the line of the current base, or of the one before it; None for any other."""
        lines = {self.base.digest: self.line}
        if self.previous is not None:
            lines = {self.previous.digest: self._previous_line, **lines}
        if digest not in lines:
            return None
        links = lines[digest].whole
        return LineagePiece(digest, index, len(links), links[index : index + 1])

    @property
    @_alone
    def offers(self) -> int:
        """How many offers were ever spent."""
        (count,) = self._database.rows("select count(*) from ledger")[0]
        return int(str(count))

    # -- steps -------------------------------------------------------------------------------------

    @_alone
    def begin_epoch(self) -> int:
        """A start begins: its epoch, above that of every start before, is on disk when this is over."""
        return self.raise_epoch(self.epoch)

    @_alone
    def raise_epoch(self, above: int) -> int:
        """The epoch from now on: above this one, and above `above`, which somebody has seen of this key."""
        epoch = max(self.epoch, above) + 1
        with self._database.step():
            self._database.set_facts(epoch=epoch)
        self.epoch = epoch
        return epoch

    @_alone
    def trained(self, fresh: Floats, pending: tuple[Event, ...]) -> None:
        """New progress that was never offered, and what an offer of it will be charged for its training."""
        name = self._files.put(fresh)
        with self._database.step():
            self._database.set_facts(fresh=name, pending=_written(pending))
        self.fresh, self.pending = fresh, pending

    @_alone
    def spend(self, sid: Sid, round: int, clipped: int, at_ms: int, receipt: Receipt) -> None:
        """The offer, all of `fresh`, is spent in session `sid`: charge, memory and move are one step.

        Where it is charged at all, the key's spend file has the charge before that step.
        """
        if self.fresh is None:
            raise RuntimeError("nothing is fresh: there is nothing to spend")
        spent = self.fresh if self.spent is None else self.spent + self.fresh
        name = self._files.put(spent)
        cost = (receipt.total.epsilon, receipt.total.delta) if receipt.total else (None, None)
        if self._spending is not None and receipt.events:
            self._spending.add((Charge(sid, round, at_ms, receipt.events),))
        with self._database.step() as connection:
            row = (sid, round, at_ms, clipped, _written(receipt.events), *cost)
            connection.execute("insert into ledger values (?, ?, ?, ?, ?, ?, ?)", row)
            self._database.set_facts(spent=name, fresh=None, pending=None, memory=json.dumps(receipt.memory))
        self.spent, self.fresh, self.pending, self.memory = spent, None, (), receipt.memory
        self.ledger = self.ledger.adding(receipt.events)

    @_alone
    def bind(self, vote: OpenVote) -> None:
        """This node's vote is bound, or it resigned: on the disk when this is over."""
        parts = (vote.group, vote.proof, vote.release)
        frames = [None if part is None else codec.encode(part).join() for part in parts]
        readys = () if vote.group is None else vote.group.readys
        on = self._file_of(readys[0].announce.base) if readys else None
        with self._database.step() as connection:
            row = (vote.sid, vote.anchor, *frames, on)
            connection.execute("insert or replace into vote values (?, ?, ?, ?, ?, ?)", row)
        self.votes[vote.sid] = vote

    @_alone
    def unbind(self, sid: Sid) -> None:
        """The vote in `sid` can count no more."""
        with self._database.step() as connection:
            connection.execute("delete from vote where sid = ?", (sid,))
        self.votes.pop(sid, None)

    @_alone
    def fell_back(self, ending: Ending) -> None:
        """A round ended with this node's own update."""
        with self._database.step():
            self._database.set_facts(round=ending.round, ending=ending.to_text())
        self.round, self.ending = ending.round, ending
        # Others may still ask for parts of the session that failed just now, but not for any before it.
        self._tidy(self._unfinished)
        self._unfinished = self._certificate_files()

    @_alone
    def adopt(
        self,
        base: Base,
        vector: Floats,
        round: int | Ending,
        kept: Kept | None,
        memory: Memory,
        line: Line = FIRST,
    ) -> None:
        """A new base: the one before it is remembered, `spent` is gone into it, `fresh` stays.

        `round`: how the round ended that made it; its number alone, where the base was fetched. `memory`:
        what the mechanism remembers from now on. `line`: where the base stands; votes on a lower anchor are
        decided, and so is who of it was gone.
        """
        ending = round if isinstance(round, Ending) else self.ending
        number = round.round if isinstance(round, Ending) else round
        name = self._files.put(vector)
        before = self._database.fact("base_file")
        with self._database.step() as connection:
            self._database.set_facts(base=_packed(base), base_file=name, spent=None, round=number)
            self._database.set_facts(ending=ending.to_text() if ending else None)
            self._database.set_facts(previous=_packed(self.base), previous_file=before)
            self._database.set_facts(memory=json.dumps(memory))
            self._database.set_facts(previous_line=self._database.fact("line"), line=_packed_line(line))
            if base.anchor != self.base.anchor:
                self._database.set_facts(gone=None)
                connection.execute("delete from vote where anchor < ?", (base.anchor,))
            if kept is not None:
                self._insert(connection, base.sid, base.generation, kept)
        if base.anchor != self.base.anchor:
            self.gone = frozenset()
            self.votes = {sid: vote for sid, vote in self.votes.items() if vote.anchor >= base.anchor}
        self._previous_line, self.line = self.line, line
        self.previous, self.base = self.base, base
        self.base_vector, self.spent, self.memory = vector, None, memory
        self.round, self.ending = number, ending
        if kept is not None:
            self.sessions[base.sid] = kept
        self._tidy(self._certificate_files())

    @_alone
    def judge(self, base: Base, good: bool) -> bool:
        """What the gate says of `base`; False, and nothing is changed, if that is the base no more.

        Good: it is the last good one from now on. Else the last good one is what training starts from, and
        the next offer has the way back in it; where there is none, nothing changes.
        """
        if base != self.base:
            return False
        with self._database.step():
            self._database.set_facts(judged=base.digest)
            if good:
                self._database.set_facts(good=self._database.fact("base_file"))
        self._judged = base.digest
        return True

    @_alone
    def without_gate(self) -> None:
        """There is no gate any more: training starts from the base, whatever a gate once said."""
        if self._judged is not None:
            with self._database.step():
                self._database.set_facts(judged=None, good=None)
        self._judged = None

    @_alone
    def ban(self, key: Key, evidence: tuple[codec.Signed, ...]) -> None:
        """Never again with this key; the signed records that show why are kept."""
        frames = b"".join(codec.evidence(record) for record in evidence)
        with self._database.step() as connection:
            connection.execute("insert or replace into banned values (?, ?)", (key, frames))
        self.banned.add(key)

    @_alone
    def close(self) -> None:
        """Nothing more is written."""
        self._database.close()

    # -- certificates ------------------------------------------------------------------------------

    @_alone
    def keep_parts(self, parts: Iterable[Sum | TotalPiece]) -> None:
        """Store pieces of partial sums, or of a total: a certificate may need them.

        A later one takes the place of an earlier one, whatever their lengths.
        """
        for sid, of_session in groupby(parts, lambda part: part.sid):
            self._parts_of(sid).add(of_session)

    @_alone
    def kept_part(self, sid: Sid, owner: Key, index: int) -> bytes | None:
        """A stored piece of `owner`'s sum (`NOBODY`: of the group's total); None if there is none."""
        if sid not in self._parts and not (self._certificates / _parts_name(sid)).exists():
            return None  # nothing is remembered of a session that somebody made up
        try:
            return self._parts_of(sid).get(owner, index)
        except OSError:
            return None

    def _parts_of(self, sid: Sid) -> PieceFile:
        return self._parts.setdefault(sid, PieceFile(self._certificates / _parts_name(sid)))

    def _insert(self, connection: object, sid: Sid, number: int, kept: Kept) -> None:
        group = codec.encode(kept.group).join()
        certificate = codec.encode(kept.certificate).join()
        row = (sid, number, group, _packed(kept.base), certificate)
        with_row = "insert or replace into session values (?, ?, ?, ?, ?)"
        connection.execute(with_row, row)  # type: ignore[attr-defined]
        old = "delete from session where number <= ?"
        connection.execute(old, (number - KEPT_SESSIONS,))  # type: ignore[attr-defined]

    def _load_sessions(self) -> dict[Sid, Kept]:
        sessions: dict[Sid, Kept] = {}
        for sid, frame, base, certificate in self._database.rows(
            "select sid, frame, base, certificate from session order by number"
        ):
            match codec.decode(_bytes(frame)), codec.decode(_bytes(certificate)):
                case Group() as group, (Certificate() | ResultCertificate()) as proof:
                    sessions[_bytes(sid)] = Kept(group, base_in(_bytes(base)), proof)
        return sessions

    def _load_votes(self) -> dict[Sid, OpenVote]:
        rows = self._database.rows("select sid, anchor, frame, proof, release from vote order by sid")
        votes = (self._vote_of(*row) for row in rows)
        return {vote.sid: vote for vote in votes}

    def _vote_of(self, *row: object) -> OpenVote:
        sid, anchor, *frames = row
        parts = [None if frame is None else codec.decode(_bytes(frame)) for frame in frames]
        match parts:
            case [Group() as group, Certificate() as own, None]:
                kept = self._own_sum(own.sums[0])
                return OpenVote(_bytes(sid), int(str(anchor)), group, own, parts=kept)
            case [Group() as group, ResultCertificate() as proof, Release() as release]:
                return OpenVote(_bytes(sid), int(str(anchor)), group, proof, release)
            case _:
                return OpenVote(_bytes(sid), int(str(anchor)))

    def _own_sum(self, header: Sum) -> tuple[Sum, ...]:
        """What this node's sum was; nothing if it is not whole here."""
        pieces = [self.kept_part(header.sid, header.sender, index) for index in range(len(header.pieces))]
        whole = [
            replace(header, index=index, payload=piece)
            for index, piece in enumerate(pieces)
            if piece is not None
        ]
        return tuple(whole) if len(whole) == len(pieces) else ()

    def _certificate_files(self) -> set[str]:
        return {path.name for path in self._certificates.iterdir()}

    def _tidy(self, certificates: set[str]) -> None:
        """Delete vectors that nothing names any more, and of `certificates` what is of no kept session."""
        names = ("base_file", "previous_file", "spent", "fresh", "good")
        facts = [self._database.fact(name) for name in names]
        kept_files = [*facts, *self._voted_on().values()]
        self._files.keep_only(name for name in kept_files if isinstance(name, str))
        while len(self.sessions) > KEPT_SESSIONS:
            self.sessions.pop(next(iter(self.sessions)))
        kept = {_parts_name(sid) for sid in (*self.sessions, *self.votes)}
        for path in (self._certificates / name for name in certificates - kept):
            if path.is_dir():  # as before there was one file for a session
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        left = self._certificate_files()
        self._parts = {sid: file for sid, file in self._parts.items() if _parts_name(sid) in left}


def _parts_name(sid: Sid) -> str:
    return f"{sid.hex()}.parts"


def _first_facts(task: str, parameters: bytes, initial: Floats, key: Key) -> dict[str, Fact]:
    """What a new database says: the initial model is the base, and nothing is spent."""
    base = Base(0, base_digest(parameters, 0, initial), 0, NO_SID)
    owner: dict[str, Fact] = {"task": task, "parameters": parameters, "key": key, "epoch": 0}
    base_facts: dict[str, Fact] = {"base": _packed(base), "base_file": VectorFiles.name_of(initial)}
    nothing: dict[str, Fact] = dict.fromkeys(("spent", "fresh", "previous", "previous_file"))
    return {**owner, **base_facts, **nothing, "round": 0}


def _key_in(summary: Path) -> str | None:
    """The key that a summary is of; None where there is none, or it does not say."""
    try:
        said = json.loads(summary.read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return None
    found = said.get("key") if isinstance(said, dict) else None
    return found if isinstance(found, str) else None


def _other_key(folder: Path, owner: str | None, key: Key) -> str:
    whose = f"the key {owner[:16]}..." if owner else "another key"
    return (
        f"--out {folder} belongs to {whose}, not to {key.hex()[:16]}...: put that key's file back, or give "
        "another --out"
    )


def _members_of_version_1(frame: bytes) -> frozenset[Key]:
    """The keys in a GROUP of wire version 3: [3, kind, [[[key, ...], ...], ...], ...], behind 4 bytes."""
    try:
        readys = msgpack.unpackb(frame[4:])[2]
        return frozenset(bytes(ready[0][0]) for ready in readys)
    except (ValueError, TypeError, LookupError):
        return frozenset()


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"bytes expected in state.db, not {type(value).__name__}")
    return value
