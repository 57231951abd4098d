"""The state that survives a crash: base, spent, fresh, the round, the ledger, certificates, bans.

These invariants hold even if the process is killed between any two instructions:
- an offer's charge is in the key's spend file before it is in the ledger (node.storage.spend_file);
- an offer is in the ledger, and its vector moved from `fresh` to `spent`, before its first byte leaves;
- the base that the database names is complete on disk, and so is the previous base;
- a spent vector never becomes fresh again;
- the last base that this node's loss gate accepted is complete on disk, as long as there is a gate;
- the cost of training is stored with `fresh` (`pending`) and charged with the offer that contains it;
- the ending of the last round is stored with its number (`ending`) until the next round has ended;
- each start has a higher epoch than this folder ever had before (`epoch`);
- a vote is on disk before its first byte leaves, with everything needed to finish its session, and after the
  charge of the offer that it votes on.

Training stores from its own thread while other threads catch up and serve. A lock allows one step at a time;
a step writes the vector's file, then the database, then the fields of this object.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import groupby
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgpack
import numpy as np

from mechanisms.accounting.ledger import (
    Event,
    Ledger,
    Terms,
    event_from_text,
    terms_from_text,
    terms_to_text,
    to_text,
)
from mechanisms.accounting.terms import UNKNOWN, unknown_terms
from mechanisms.mechanism import Memory
from node.storage.database import Database, Fact, create_database
from node.storage.folder_lock import STATE, SUMMARY
from node.storage.piece_file import PieceFile
from node.storage.records import Ended, Receipt, count_of
from node.storage.spend_file import Charge, SpendFile
from node.storage.vector_files import Floats, VectorFiles
from node.storage.whole_files import OWNERS_FOLDER, sync
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError
from protocol.actions import OpenVote
from protocol.quorum.electorate import Electorate
from protocol.quorum.lineage import FIRST, Line
from protocol.swarm.node_state import NodeState
from protocol.swarm.recovery.fetch import Past
from protocol.vectors.pieces import base_digest, piece, piece_count, raw
from protocol.wire import codec, signing
from protocol.wire.fields import Signed
from protocol.wire.masked_messages import Release, ResultCertificate, TotalPiece
from protocol.wire.messages import (
    NO_SID,
    Base,
    Certificate,
    ChargeCount,
    Charged,
    Group,
    Key,
    LineagePiece,
    Link,
    Sid,
    Sum,
)

P = ParamSpec("P")
T = TypeVar("T")

KEPT_SESSIONS = 2
_SPLIT, _BY_ROW = "split", "row"
"""The fact that marks a folder whose rows were always split each by itself; older folders lack it."""


@dataclass(frozen=True)
class Owner:
    """To whom a folder belongs: the task, the hash of the parameters that its members share, and a key."""

    task: str
    parameters: bytes
    key: Key
    formerly: Mapping[bytes, str] = field(default_factory=dict)
    """The parameters that an older folder may have, each with what to do."""


@dataclass(frozen=True)
class Kept:
    """A session whose certificate this node can serve."""

    group: Group
    base: Base
    certificate: Certificate | ResultCertificate


def _written(events: Iterable[Event]) -> str:
    return "\n".join(to_text(event) for event in events)


def _read(text: object) -> tuple[Event, ...]:
    return tuple(event_from_text(line) for line in text.splitlines()) if isinstance(text, str) else ()


def _book(connection: sqlite3.Connection, charges: Sequence[Charge]) -> None:
    """Writes charges to the ledger; call it within a step."""
    rows = [(one.sid, one.round, one.at_ms, _written(one.events)) for one in charges]
    connection.executemany("insert into ledger values (?, ?, ?, 0, ?, null, null)", rows)
    _set_terms(connection, charges)


def _set_terms(connection: sqlite3.Connection, charges: Iterable[Charge]) -> None:
    """Writes what charges were sized for; call it within a step."""
    rows = [(one.sid, terms_to_text(one.terms)) for one in charges if one.terms is not None]
    connection.executemany("insert or replace into terms values (?, ?)", rows)


def _packed(base: Base) -> bytes:
    return bytes(msgpack.packb([base.generation, base.digest, base.members, base.sid, base.anchor]))


def base_in(data: bytes) -> Base:
    """Decodes a stored base."""
    return Base(*msgpack.unpackb(data))


def _anchored(data: bytes) -> bytes:
    """Converts a base that version 1, 2 or 3 wrote: its own generation becomes its anchor."""
    generation, digest, members, sid = msgpack.unpackb(data)[:4]
    return _packed(Base(generation, digest, members, sid, generation))


def _packed_line(line: Line) -> bytes:
    known = line.electors
    electors = None if known is None else [list(known.members), known.least, known.liars]
    links = [_packed_link(link) for link in line.links]
    return bytes(
        msgpack.packb([line.anchor, electors, links, _packed_link(line.weak) if line.weak else None])
    )


def _packed_link(link: Link) -> bytes:
    return codec.encode(LineagePiece(NO_SID, 0, 1, (link,))).join()


def gone_in(data: object) -> frozenset[bytes]:
    """Returns the electors that the folder's owner declared gone for good; empty if there are none."""
    return frozenset(msgpack.unpackb(data)) if isinstance(data, bytes) else frozenset()


def line_in(data: object) -> Line:
    """Decodes a stored line; returns the line of a first base if none is stored."""
    if not isinstance(data, bytes):
        return FIRST
    anchor, electors, links, weak = msgpack.unpackb(data)
    members = None if electors is None else Electorate(tuple(electors[0]), *electors[1:])
    known = tuple(_link_in(link) for link in links)
    return Line(anchor, members, known, None if weak is None else _link_in(weak))


def _link_in(data: bytes) -> Link:
    piece_of = codec.decode(data)
    if not isinstance(piece_of, LineagePiece):
        raise TypeError("a link expected in state.db")
    return piece_of.link[0]


def _alone(method: Callable[Concatenate[State, P], T]) -> Callable[Concatenate[State, P], T]:
    """Runs the method under the state's lock, so that only one thread at a time is in such a method."""

    @wraps(method)
    def alone(self: State, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class State:
    """A node's persistent state in its folder. Vectors are (d,) float32; None stands for zeros."""

    def __init__(
        self,
        folder: Path,
        owner: Owner,
        initial: Floats,
        spending: SpendFile | None,
        disk: Disk = DISK,
        terms: Terms | None = None,
    ) -> None:
        """Opens the state, or creates it with `initial` as the first base.

        `spending` is the second record of the key's charges; None if nothing is ever charged. `terms`: what
        this run's charges are sized for; charges that an earlier version made in this folder, with the same
        parameters, get these terms. None: charges have no terms. Raises ConfigError for another's folder.
        """
        self.dimension = len(initial)
        self.owner = owner
        self._lock = threading.RLock()
        self._spending = spending
        self._terms = terms
        self._disk = disk
        self._certificates = folder / "certificates"
        self._parts: dict[Sid, PieceFile] = {}
        self._unfinished: set[str] = set()
        """Names of part files of no kept session, as they were when the last round ended."""
        first = _first_facts(owner, initial)
        if not (folder / STATE).exists():
            create_database(folder / STATE, first, disk)
        self._database = Database(folder / STATE, disk)
        try:
            if self._database.is_older:
                self._take_over(folder, owner.key, first)
            self._check(folder, owner)
            self._files = VectorFiles(folder / "vectors", disk)
            self._certificates.mkdir(mode=OWNERS_FOLDER, exist_ok=True)
            sync(folder, disk)  # both folders' names: no file in them is on disk before
            self._load(initial)
            if self._database.fact(_SPLIT) is None and not _has_begun(self._database.fact, self.offers):
                with self._database.step():  # nothing was learned: the rows are split as in a new folder
                    self._database.set_facts(**{_SPLIT: _BY_ROW})
            self.recovered = self._reconcile()
            self._tidy(self._certificate_files())
        except BaseException:
            self._database.close()
            raise

    def _take_over(self, folder: Path, key: Key, first: dict[str, Fact]) -> None:
        """Upgrades an older database. Version 1 does not name its owner, but its contents reveal it."""
        if self._database.fact("task") is None:  # killed at its first start, before it stored anything
            self._database.upgrade(first)
            return
        if self._database.version == 4:
            self._database.upgrade({})
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

    def _check(self, folder: Path, owner: Owner) -> None:
        task, key, parameters = str(self._database.fact("task")), self._blob("key"), self._blob("parameters")
        if task != owner.task:
            raise ConfigError(f"--out {folder} holds task '{task}', not '{owner.task}': name another folder")
        if key != owner.key:
            raise ConfigError(_other_key(folder, key.hex(), owner.key))
        if parameters != owner.parameters:
            remedy = "name another folder, or start with the same --set and task file as before"
            raise ConfigError(
                f"--out {folder} was made with other parameters of task '{owner.task}': "
                f"{owner.formerly.get(parameters, remedy)}"
            )

    def _load(self, initial: Floats) -> None:
        charged = self._database.rows("select max(round) from ledger")[0][0]
        self.round = max(self._number("round"), charged if isinstance(charged, int) else 0)
        """The node's own last round: it ended, or the process ended after the round's offer was spent."""
        self.epoch = int(self._number("epoch"))
        """The epoch of this start once `begin_epoch` was called: higher than that of every earlier start."""
        self.base = base_in(self._blob("base"))
        name = str(self._database.fact("base_file"))
        if self.base.generation == 0 and not self._files.has(name) and self._files.name_of(initial) == name:
            self._files.put(initial)  # the first start was killed after it wrote the database
        self.base_vector = self._files.get(name, self.dimension)
        previous = self._database.fact("previous")
        self.previous = base_in(previous) if isinstance(previous, bytes) else None
        self.line = line_in(self._database.fact("line"))
        self._previous_line = line_in(self._database.fact("previous_line"))
        self.gone = gone_in(self._database.fact("gone"))
        """The electors of this anchor that the owner declared gone for good."""
        self._checked = self._database.fact("judged")
        self.spent = self._vector("spent")
        self.fresh = self._vector("fresh")
        self.pending = _read(self._database.fact("pending"))
        memory = self._database.fact("memory")
        ending = self._database.fact("ending")
        self.ending = ending if isinstance(ending, str) else None
        self.memory: Memory = tuple(map(tuple, json.loads(memory))) if isinstance(memory, str) else ()
        self.ledger, self.charged = Ledger(), ChargeCount()
        self.counts = self._load_counts()
        """What other keys have charged, as they signed it; the one that changed last is the last."""
        self.sessions = self._load_sessions()
        self.votes = self._load_votes()
        self.banned = {
            key: _records(evidence)
            for key, evidence in self._database.rows("select key, evidence from banned")
            if isinstance(key, bytes) and isinstance(evidence, bytes)
        }

    def _count(self, charges: Iterable[Charge]) -> None:
        """Counts charges that are in the ledger on disk, or in the spend file."""
        events = tuple(event for charge in charges for event in charge.sized)
        self.ledger = self.ledger.adding(events)
        self.charged = count_of(events, self.charged)

    def _charges(self) -> list[Charge]:
        """Reads the ledger from disk."""
        rows = self._database.rows(
            "select sid, round, at_ms, events, terms from ledger left join terms using (sid)"
        )
        return [
            Charge(
                _bytes(sid),
                int(str(round)),
                int(str(at_ms)),
                _read(events),
                terms_from_text(terms) if isinstance(terms, str) else None,
            )
            for sid, round, at_ms, events, terms in rows
        ]

    def _reconcile(self) -> int:
        """Copies to the ledger and to the spend file the charges that only the other one has.

        It also stores what each charge was sized for, where an earlier version did not. Returns how many
        offers the ledger lacked: it is an older copy or a new one, or the process was killed between the two
        writes. Such an offer counts, even if it never left.
        """
        stored, there = self._charges(), {} if self._spending is None else self._spending.charges()
        here = [self._known_by(charge, there.get(charge.sid)) for charge in stored]
        if self._spending is not None:
            lacking = [one for one in here if one.events and _says_more(one, there.get(one.sid))]
            there |= self._spending.add(lacking)  # what others add meanwhile counts, too
        known = {charge.sid for charge in here}
        missing = [self._of_others(charge) for sid, charge in there.items() if sid not in known]
        changed = [new for old, new in zip(stored, here, strict=True) if new != old]
        if missing or changed:
            with self._database.step() as connection:
                _book(connection, missing)
                _set_terms(connection, changed)
        self._count((*here, *missing))
        return len(missing)

    def _known_by(self, charge: Charge, beside: Charge | None) -> Charge:
        """Returns a charge of the ledger with its terms: stored ones, the spend file's, or this folder's."""
        if not charge.events or not _is_guess(charge.terms):
            return charge
        if beside is not None and beside.terms is not None:
            return replace(charge, terms=beside.terms)
        return replace(charge, terms=charge.terms or self._terms)

    def _of_others(self, charge: Charge) -> Charge:
        """Returns a charge that only the spend file has, with assumed terms if it has none."""
        if charge.terms is not None or self._terms is None:
            return charge
        return replace(charge, terms=unknown_terms(self._terms))

    @_alone
    def take_in(self) -> bool:
        """Books what others have added to the spend file since it was read; returns whether there is any."""
        news = [] if self._spending is None else self._news(self._spending.grown())
        if news:
            with self._database.step() as connection:
                _book(connection, news)
            self._count(news)
        return bool(news)

    def _news(self, found: Mapping[Sid, Charge]) -> list[Charge]:
        """Returns the charges of the spend file that the ledger lacks."""
        known = {sid for sid in found if self._database.rows("select 1 from ledger where sid = ?", sid)}
        return [self._of_others(charge) for sid, charge in found.items() if sid not in known]

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
        """The node state from which a session starts."""
        return NodeState(
            round=self.round,
            base=self.base,
            previous=self.previous,
            banned=dict(self.banned),
            epoch=self.epoch,
            line=self.line,
            votes=dict(self.votes),
            gone=self.gone,
            charged=self.charged,
            counts=dict(self.counts),
        )

    @property
    @_alone
    def base_and_vector(self) -> tuple[Base, Floats]:
        """The base and its vector, read together: another thread may be adopting the next base."""
        return self.base, self.base_vector

    @property
    @_alone
    def models(self) -> tuple[Base, Floats, Floats]:
        """The base, its vector, and the working model, read together."""
        return self.base, self.base_vector, self.working

    @property
    @_alone
    def working(self) -> Floats:
        """The working model, base + spent + fresh: the node trains on it and never sends it.

        If the gate refused the base, the last good base takes its place.
        """
        total = self._instead()
        if total is None:
            total = self.base_vector.copy()
        for part in (self.spent, self.fresh):
            if part is not None:
                total += part
        return total

    def _instead(self) -> Floats | None:
        """Reads the last good base from disk if the gate refused the base; else returns None."""
        good, here = self._database.fact("good"), self._database.fact("base_file")
        refused = self._checked == self.base.digest and good != here
        return self._vector("good") if refused else None

    @property
    @_alone
    def way_back(self) -> Floats | None:
        """Last good base minus base if the gate refused the base, else None. Both bases are the swarm's."""
        good = self._instead()
        return None if good is None else np.subtract(good, self.base_vector, out=good)

    @property
    @_alone
    def unchecked(self) -> tuple[Base, Floats] | None:
        """The base and its vector (d,) if no gate has judged it yet, else None."""
        return None if self._checked == self.base.digest else (self.base, self.base_vector)

    @property
    @_alone
    def last_good(self) -> Floats | None:
        """The last base that a gate accepted; None if there is none."""
        return self._vector("good")

    @property
    @_alone
    def past(self) -> dict[Sid, Past]:
        """The sessions whose certificates this node can serve."""
        return {sid: Past(kept.group, kept.base, {}) for sid, kept in self.sessions.items()}

    @_alone
    def vector_of(self, base: Base) -> Floats | None:
        """Returns the vector of the current or previous base, or of one that an open vote builds on.

        None for any other base.
        """
        if base == self.base:
            return self.base_vector
        name = self._file_of(base)
        return None if name is None else self._files.get(name, self.dimension)

    def _file_of(self, base: Base) -> str | None:
        """Returns the name of the file that holds a base; None if it is not stored any more."""
        names = [self._database.fact(name) for name in ("base_file", "previous_file")]
        known = {held: name for held, name in zip((self.base, self.previous), names, strict=True) if held}
        found = known.get(base)
        return found if isinstance(found, str) else self._voted_on().get(base)

    def _voted_on(self) -> dict[Base, str]:
        """Returns the bases that open votes build on, each with its file's name."""
        rows = self._database.rows("select sid, base_file from vote where base_file is not null")
        files = {_bytes(sid): str(name) for sid, name in rows}
        groups = {sid: vote.group for sid, vote in self.votes.items()}
        return {group.base: files[sid] for sid, group in groups.items() if group is not None and sid in files}

    @_alone
    def base_piece(self, digest: bytes, index: int) -> bytes | memoryview | None:
        """Returns a piece of the current or previous base, for serving; None for any other base."""
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
        """Returns a link of the line of the current or previous base; None for any other base."""
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
        """The number of offers ever spent."""
        (count,) = self._database.rows("select count(*) from ledger")[0]
        return int(str(count))

    # -- steps -------------------------------------------------------------------------------------

    @_alone
    def begin_epoch(self) -> int:
        """Gives this start an epoch above that of every earlier start and returns it; it is then on disk."""
        return self.raise_epoch(self.epoch)

    @_alone
    def raise_epoch(self, above: int) -> int:
        """Raises the epoch above the current one and above `above`, which a peer has seen of this key.

        Returns the new epoch.
        """
        epoch = max(self.epoch, above) + 1
        with self._database.step():
            self._database.set_facts(epoch=epoch)
        self.epoch = epoch
        return epoch

    @_alone
    def trained(self, fresh: Floats, pending: tuple[Event, ...]) -> None:
        """Stores progress that was never offered and the training charge that its offer will carry."""
        name = self._files.put(fresh)
        with self._database.step():
            self._database.set_facts(fresh=name, pending=_written(pending))
        self.fresh, self.pending = fresh, pending

    @_alone
    def spend(self, sid: Sid, round: int, clipped: int, at_ms: int, receipt: Receipt) -> None:
        """Spends the offer, all of `fresh`, in session `sid`: one step stores charge, memory and the move.

        If there is a charge, it is in the key's spend file before that step.
        """
        if self.fresh is None:
            raise RuntimeError("nothing is fresh: there is nothing to spend")
        spent = self.fresh if self.spent is None else self.spent + self.fresh
        name = self._files.put(spent)
        with self._charged(sid, round, clipped, at_ms, receipt):
            self._database.set_facts(spent=name, fresh=None, pending=None, memory=json.dumps(receipt.memory))
        self.spent, self.fresh, self.pending, self.memory = spent, None, (), receipt.memory

    @_alone
    def charge(self, sid: Sid, round: int, at_ms: int, receipt: Receipt) -> None:
        """Charges an offer in session `sid` of which this node keeps no vector.

        With a spend file, its line is on disk when this returns; the ledger gets the charge from it at need.
        A charge of nothing has no line there.
        """
        durable = self._spending is None or not receipt.events
        with self._charged(sid, round, 0, at_ms, receipt, durable):
            pass

    @contextmanager
    def _charged(
        self, sid: Sid, round: int, clipped: int, at_ms: int, receipt: Receipt, durable: bool = True
    ) -> Iterator[None]:
        """Writes a charge to the spend file, then, in one step with what the caller writes, to the ledger."""
        cost = (receipt.total.epsilon, receipt.total.delta) if receipt.total else (None, None)
        charge = self._own(Charge(sid, round, at_ms, receipt.events))
        news = self._written_beside(charge)
        with self._database.step(durable) as connection:
            row = (sid, round, at_ms, clipped, _written(receipt.events), *cost)
            connection.execute("insert into ledger values (?, ?, ?, ?, ?, ?, ?)", row)
            _set_terms(connection, (charge,))
            _book(connection, news)
            yield
        self._count((charge, *news))

    def _own(self, charge: Charge) -> Charge:
        """Returns a charge with its terms: those of its events, or this run's; one of nothing has none."""
        own = next((event.terms for event in charge.events if event.terms is not None), self._terms)
        return replace(charge, terms=own) if charge.events else charge

    def _written_beside(self, charge: Charge, durable: bool = True) -> list[Charge]:
        """Writes a charge with events to the spend file; returns what others have added there meanwhile."""
        if self._spending is None or not charge.events:
            return []
        return self._news(self._spending.add((charge,), durable))

    @_alone
    def bind(self, vote: OpenVote, ahead: Charge | None = None) -> None:
        """Stores that this node's vote is bound or that it resigned; it is on disk when this returns.

        `ahead`: the charge of an offer to come. One step stores both, with one wait for the disk.
        """
        charges = [] if ahead is None else [self._own(ahead)]
        charges += [one for charge in charges for one in self._written_beside(charge, durable=False)]
        parts = (vote.group, vote.proof, vote.release)
        frames = [None if part is None else codec.encode(part).join() for part in parts]
        on = self._file_of(vote.group.base) if vote.group is not None and vote.group.readys else None
        if vote.parts:  # this node's own sum: a vote that lacks it would stay bound, for nobody else has it
            for path in (self._certificates / _parts_name(vote.sid), self._certificates):
                sync(path, self._disk)
        with self._database.step() as connection:
            row = (vote.sid, vote.anchor, *frames, on)
            connection.execute("insert or replace into vote values (?, ?, ?, ?, ?, ?)", row)
            _book(connection, charges)
        self.votes[vote.sid] = vote
        self._count(charges)

    @_alone
    def unbind(self, sid: Sid) -> None:
        """Removes the vote in `sid`, which can no longer count."""
        with self._database.step() as connection:
            connection.execute("delete from vote where sid = ?", (sid,))
        self.votes.pop(sid, None)

    @_alone
    def fell_back(self, ended: Ended) -> None:
        """Stores how a round ended that fell back to this node's own update."""
        with self._database.step():
            self._database.set_facts(round=ended.own, ending=ended.text)
        self.round, self.ending = ended.own, ended.text
        # Others may still request parts of the session that failed just now, but not of earlier ones.
        self._tidy(self._unfinished)
        self._unfinished = self._certificate_files()

    @_alone
    def adopt(
        self,
        base: Base,
        vector: Floats,
        round: int | Ended,
        kept: Kept | None,
        memory: Memory,
        line: Line = FIRST,
        durable: bool = True,
    ) -> None:
        """Adopts a new base: keeps the previous one, clears `spent`, which is part of it, and keeps `fresh`.

        If not `durable`, a power failure may take the adoption back. Nothing is lost then: the vote for this
        base is open again, as it was, and its session can be finished or fetched.

        `round` is the ending of the round that made the base, or only its number if the base was fetched.
        `memory` is the mechanism's new memory. `line` is the base's line: votes on a lower anchor are decided
        and dropped, and so are the electors declared gone for it.
        """
        number, ending = (round.own, round.text) if isinstance(round, Ended) else (round, self.ending)
        name = self._files.put(vector)
        before = self._database.fact("base_file")
        with self._database.step(durable) as connection:
            self._database.set_facts(base=_packed(base), base_file=name, spent=None, round=number)
            self._database.set_facts(ending=ending)
            self._database.set_facts(previous=_packed(self.base), previous_file=before)
            self._database.set_facts(memory=json.dumps(memory))
            self._database.set_facts(previous_line=self._database.fact("line"), line=_packed_line(line))
            if base.anchor != self.base.anchor:
                self._database.set_facts(gone=None)
                connection.execute("delete from vote where anchor < ?", (base.anchor,))
            if kept is not None:
                group, certificate = (codec.encode(part).join() for part in (kept.group, kept.certificate))
                row = (base.sid, base.generation, group, _packed(kept.base), certificate)
                connection.execute("insert or replace into session values (?, ?, ?, ?, ?)", row)
                connection.execute(
                    "delete from session where number <= ?", (base.generation - KEPT_SESSIONS,)
                )
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
    def set_accepted(self, base: Base, good: bool) -> bool:
        """Stores the gate's judgement of `base`. Returns False and changes nothing if `base` was replaced.

        An accepted base becomes the last good one. After a refusal, training starts from the last good base,
        and the next offer contains the way back to it; without a last good base nothing changes.
        """
        if base != self.base:
            return False
        with self._database.step():
            self._database.set_facts(judged=base.digest)
            if good:
                self._database.set_facts(good=self._database.fact("base_file"))
        self._checked = base.digest
        return True

    @_alone
    def without_gate(self) -> None:
        """Forgets earlier judgements, because there is no gate any more: training starts from the base."""
        if self._checked is not None:
            with self._database.step():
                self._database.set_facts(judged=None, good=None)
        self._checked = None

    @_alone
    def ban(self, key: Key, evidence: tuple[Signed, ...]) -> None:
        """Bans a key for ever and keeps the signed records that prove why."""
        records = tuple(signing.evidence(record) for record in evidence)
        with self._database.step() as connection:
            connection.execute("insert or replace into banned values (?, ?)", (key, msgpack.packb(records)))
        self.banned[key] = records

    @_alone
    def keep_charged(self, charged: Charged, instead_of: Key | None) -> None:
        """Keeps a peer's count of charges, and forgets that of `instead_of`.

        It survives kill -9; a power failure may take it until the next durable step.
        """
        with self._database.step(durable=False) as connection:
            row = (charged.key, codec.encode(charged).join())
            connection.execute("insert or replace into charged values (?, ?)", row)
            connection.execute("delete from charged where key = ?", (instead_of,))
        self.counts.pop(charged.key, None)
        self.counts[charged.key] = charged
        self.counts.pop(instead_of or b"", None)

    @_alone
    def close(self) -> None:
        """Closes the database; nothing more is written."""
        self._database.close()

    # -- certificates ------------------------------------------------------------------------------

    @_alone
    def keep_parts(self, parts: Iterable[Sum | TotalPiece]) -> None:
        """Stores pieces of partial sums or of a total, which a certificate may need.

        A later piece replaces an earlier one, whatever their lengths.
        """
        for sid, of_session in groupby(parts, lambda part: part.sid):
            self._parts_of(sid).add(of_session)

    @_alone
    def kept_part(self, sid: Sid, owner: Key, index: int) -> bytes | None:
        """Returns a stored piece of `owner`'s sum (`NOBODY`: of the group's total); None if there is none."""
        if sid not in self._parts and not (self._certificates / _parts_name(sid)).exists():
            return None  # a made-up session must leave no entry in `_parts`
        try:
            return self._parts_of(sid).get(owner, index)
        except OSError:
            return None

    def _parts_of(self, sid: Sid) -> PieceFile:
        return self._parts.setdefault(sid, PieceFile(self._certificates / _parts_name(sid)))

    def _load_sessions(self) -> dict[Sid, Kept]:
        sessions: dict[Sid, Kept] = {}
        for sid, frame, base, certificate in self._database.rows(
            "select sid, frame, base, certificate from session order by number"
        ):
            match codec.decode(_bytes(frame)), codec.decode(_bytes(certificate)):
                case Group() as group, (Certificate() | ResultCertificate()) as proof:
                    sessions[_bytes(sid)] = Kept(group, base_in(_bytes(base)), proof)
        return sessions

    def _load_counts(self) -> dict[Key, Charged]:
        frames = self._database.rows("select frame from charged order by rowid")
        kept = (codec.decode(_bytes(frame)) for (frame,) in frames)
        return {charged.key: charged for charged in kept if isinstance(charged, Charged)}

    def _load_votes(self) -> dict[Sid, OpenVote]:
        votes: dict[Sid, OpenVote] = {}
        rows = self._database.rows("select sid, anchor, frame, proof, release from vote order by sid")
        for key, stored, *frames in rows:
            sid, anchor = _bytes(key), int(str(stored))
            match [None if frame is None else codec.decode(_bytes(frame)) for frame in frames]:
                case [Group() as group, Certificate() as own, None]:
                    votes[sid] = OpenVote(sid, anchor, group, own, parts=self._own_sum(own.sums[0]))
                case [Group() as group, ResultCertificate() as proof, Release() as release]:
                    votes[sid] = OpenVote(sid, anchor, group, proof, release)
                case _:
                    votes[sid] = OpenVote(sid, anchor)
        return votes

    def _own_sum(self, header: Sum) -> tuple[Sum, ...]:
        """Returns all pieces of this node's sum; empty if one is missing."""
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
        """Deletes unreferenced vectors, and those files in `certificates` that belong to no kept session."""
        names = ("base_file", "previous_file", "spent", "fresh", "good")
        facts = [self._database.fact(name) for name in names]
        kept_files = [*facts, *self._voted_on().values()]
        self._files.keep_only(name for name in kept_files if isinstance(name, str))
        while len(self.sessions) > KEPT_SESSIONS:
            self.sessions.pop(next(iter(self.sessions)))
        kept = {_parts_name(sid) for sid in (*self.sessions, *self.votes)}
        for path in (self._certificates / name for name in certificates - kept):
            if path.is_dir():  # earlier versions had a folder for each session
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        left = self._certificate_files()
        self._parts = {sid: file for sid, file in self._parts.items() if _parts_name(sid) in left}


def _is_guess(terms: Terms | None) -> bool:
    """Returns whether nobody has written what a charge was sized for."""
    return terms is None or terms.mechanism == UNKNOWN


def _says_more(charge: Charge, beside: Charge | None) -> bool:
    """Returns whether the spend file lacks a charge, or what it was sized for."""
    return beside is None or (beside.terms is None and not _is_guess(charge.terms))


def _parts_name(sid: Sid) -> str:
    return f"{sid.hex()}.parts"


def _first_facts(owner: Owner, initial: Floats) -> dict[str, Fact]:
    """Returns the facts of a new database: the initial model is the base, and nothing is spent."""
    base = Base(0, base_digest(owner.parameters, 0, initial), 0, NO_SID)
    whose: dict[str, Fact] = {
        "task": owner.task,
        "parameters": owner.parameters,
        "key": owner.key,
        "epoch": 0,
    }
    base_facts: dict[str, Fact] = {"base": _packed(base), "base_file": VectorFiles.name_of(initial)}
    nothing: dict[str, Fact] = dict.fromkeys(("spent", "fresh", "previous", "previous_file"))
    return {**whose, **base_facts, **nothing, "round": 0, _SPLIT: _BY_ROW}


def splits_as_before(folder: Path) -> bool:
    """Returns whether a version that did not split each row by itself began the run: begun, and no mark."""
    path = folder / STATE
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            facts = dict(connection.execute("select name, value from fact"))
            (offers,) = connection.execute("select count(*) from ledger").fetchone()
    except sqlite3.Error:  # whoever opens the folder says what is wrong
        return False
    return facts.get(_SPLIT) is None and _has_begun(facts.get, offers)


def _has_begun(fact: Callable[[str], Fact], offers: int) -> bool:
    """Whether something was learned: a round ended, progress stored, an offer spent, or a base adopted."""
    return bool(offers or any(fact(name) for name in ("round", "fresh", "spent", "previous")))


def _key_in(summary: Path) -> str | None:
    """Returns the key that a summary names; None if there is no summary or it names none."""
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
    """Returns the keys in a GROUP of wire version 3.

    Its frame is [3, kind, [[[key, ...], ...], ...], ...] after 4 bytes.
    """
    try:
        readys = msgpack.unpackb(frame[4:])[2]
        return frozenset(bytes(ready[0][0]) for ready in readys)
    except (ValueError, TypeError, LookupError):
        return frozenset()


def _records(evidence: bytes) -> tuple[bytes, ...]:
    """Returns the signed records of a ban; older versions stored one record, which begins with a letter."""
    return (evidence,) if evidence[:1] < b"\x80" else tuple(msgpack.unpackb(evidence))


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"bytes expected in state.db, not {type(value).__name__}")
    return value
