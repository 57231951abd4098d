"""The owner declares who is gone for good: what a folder shows, what is stored, and what is refused."""

import builtins
import sys
from dataclasses import replace

import numpy as np
import pytest

from node.rejoin.__main__ import main
from node.storage.database import Database
from node.storage.folder_lock import STATE, Lock
from node.storage.state import Owner, State
from protocol.quorum.electorate import of_keys
from protocol.quorum.lineage import Line
from protocol.wire.messages import Certificate, Link
from tests.openings import after_opening
from tests.parts import base, endpoint, group, members

KEYS = members(5)
ME = KEYS[0]
MADE = Link(group(KEYS[:4]), (), (Certificate(b"s" * 32, ()),))
LINE = Line(2, of_keys(key.public for key in KEYS), (MADE,))
"""Five electors made the base, four of whom were in a session that this folder has recorded."""


def opened(out) -> State:
    return State(out, Owner("digits", bytes(32), ME.public), np.zeros(5, np.float32), None)


@pytest.fixture
def out(tmp_path):
    """Makes a folder with a base that has a quorum of its five electors."""
    (tmp_path / "mine").mkdir()
    state = opened(tmp_path / "mine")
    state.adopt(replace(base(2), anchor=2), np.ones(5, np.float32), 2, None, (), LINE)
    state.close()
    return tmp_path / "mine"


@pytest.fixture
def first(tmp_path):
    """Makes a folder that has only the first model."""
    (tmp_path / "first").mkdir()
    opened(tmp_path / "first").close()
    return tmp_path / "first"


@pytest.fixture
def run(capsys):
    def run(out, *more):
        status = main(["--out", str(out), *more])
        said = capsys.readouterr()
        return status, after_opening(said.out), said.err

    return run


def gone(out):
    state = opened(out)
    state.close()
    return state.gone


def digits(key, count=16):
    return key.public.hex()[:count]


def test_without_a_name_it_shows_who_decides_and_changes_nothing(out, run):
    status, said, errors = run(out)
    assert (status, errors) == (0, "")
    lines = said.splitlines()
    assert "model: generation 2, agreed by a quorum" in lines
    assert "electors: those who made the model, of generation 2; 3 of 5 make a quorum" in lines
    assert f"  {digits(ME)} at {endpoint(ME)}, this node" in lines
    assert f"  {digits(KEYS[3])} at {endpoint(KEYS[3])}" in lines
    assert f"  {digits(KEYS[4])}" in lines, "nobody knows where it listened"
    assert "gone for good by the owner's word: nobody" in lines
    assert lines[-1].startswith(f"python -m node.rejoin --out {out} --gone NAME ... would declare")
    assert gone(out) == frozenset()


def test_a_word_is_stored_once_it_is_confirmed_and_shown_from_then_on(out, run):
    status, said, errors = run(out, "--gone", digits(KEYS[4], 8), "--gone", endpoint(KEYS[3]), "--yes")
    assert (status, errors) == (0, "")
    assert "WARNING: this gives up what keeps a swarm to one model." in said
    assert said.endswith("stored: 2 electors gone for good; now start the node again\n")
    assert "then 2 of the 3 make a quorum" in said
    assert gone(out) == {KEYS[3].public, KEYS[4].public}
    shown = run(out)[1]
    assert f"  {digits(KEYS[4])}, gone for good\n" in shown
    both = f"{digits(KEYS[3])} at {endpoint(KEYS[3])}, {digits(KEYS[4])}"
    assert f"gone for good by the owner's word: {both}" in shown


def test_another_word_takes_the_place_of_the_one_before_and_none_takes_it_back(out, run):
    run(out, "--gone", digits(KEYS[4]), "--yes")
    status, said, _ = run(out, "--gone", digits(KEYS[3]).upper(), "--yes")
    assert (status, gone(out)) == (0, {KEYS[3].public})
    assert f"then 3 of the 4 make a quorum, or 2 with {digits(ME)} among them" in said
    assert run(out, "--gone", "none")[0] == 0
    assert gone(out) == frozenset()
    state = opened(out)
    state.adopt(replace(base(3), anchor=2), np.ones(5, np.float32), 3, None, (), replace(LINE, weak=MADE))
    state.close()
    said = run(out)[1]
    assert "model: generation 3, agreed without a quorum" in said
    assert "electors: those who made the last model with a quorum, of generation 2" in said


@pytest.mark.parametrize(("typed", "is_stored"), [("yes", True), ("y", False), (None, False)])
def test_on_a_terminal_it_asks_and_without_yes_nothing_is_stored(out, run, monkeypatch, typed, is_stored):
    def answer(prompt):
        assert prompt == "Store this? Type yes: "
        if typed is None:
            raise EOFError
        return typed

    status, said, error = run(out, "--gone", digits(KEYS[4]))
    assert (status, gone(out)) == (2, frozenset())
    assert "WARNING" in said
    assert error == "error: nothing is stored: confirm with --yes, or type yes on a terminal\n"
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(builtins, "input", answer)
    assert run(out, "--gone", digits(KEYS[4]))[0] == (0 if is_stored else 2)
    assert bool(gone(out)) == is_stored


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["abc"], "--gone 'abc' is refused; allowed: at least 8 digits that one elector's key begins with"),
        (["0" * 64], "is refused; allowed: at least 8 digits"),
        (["10.0.0.9:1"], "--gone '10.0.0.9:1' is refused; allowed: at least 8 digits"),
        (["\n" * 100], "is refused; allowed: at least 8 digits"),
        ([digits(ME)], "is this node itself; allowed: another elector"),
        (["none", digits(KEYS[4])], "--gone none withdraws all: give it without another --gone"),
    ],
)
def test_a_name_that_is_no_elector_is_refused_in_a_line(out, run, names, why):
    status, _, error = run(out, *(part for name in names for part in ("--gone", name)), "--yes")
    assert status == 2
    assert why in error
    assert error.count("\n") == 1
    assert gone(out) == frozenset()


def test_of_a_first_model_endpoints_are_named_or_whole_keys(first, run):
    said = run(first)[1]
    assert "model: the first one, as it was set up" in said
    assert "electors: of the first model, which this folder does not know:" in said
    assert "--gone HOST:PORT ... would declare" in said
    names = ("10.0.0.7:9001", KEYS[4].public.hex().upper())
    status, said, _ = run(first, "--gone", names[0], "--gone", names[1], "--yes")
    assert status == 0
    assert "make a quorum" not in said
    assert gone(first) == {b"10.0.0.7:9001", KEYS[4].public}
    assert "10.0.0.7:9001" in run(first)[1]
    for wrong in (digits(KEYS[4]), "10.0.0.7", "g" * 64):
        status, _, error = run(first, "--gone", wrong, "--yes")
        assert status == 2
        assert "allowed, for a first model: HOST:PORT as it stands in --peers, or the 64 digits" in error


def test_a_folder_without_a_node_and_one_that_runs_are_refused_in_a_line(tmp_path, out, run):
    status, _, error = run(tmp_path / "nothing")
    assert (status, (tmp_path / "nothing").exists()) == (2, False)
    assert error.endswith("has no state.db; allowed: the --out of a node that has run\n")
    lock = Lock(out)
    assert run(out, "--gone", digits(KEYS[4]), "--yes")[::2] == (
        1,
        f"error: --out {out} is in use by a node: end it (Ctrl-C), run this, then start it again\n",
    )
    lock.release()
    (out / "lock").unlink()
    (out / "lock").mkdir()
    assert run(out)[0] == 2


def test_a_folder_of_a_version_before_a_damaged_one_and_a_path_that_is_none_are_refused(out, first, run):
    database = Database(first / STATE)
    with database.step():
        database.set_facts(base=None)
    database.close()
    status, _, error = run(first)
    assert status == 2
    assert error.endswith("was not used by this version yet: start its node once, then run this again\n")
    (out / STATE).write_bytes(b"")
    assert run(out)[0] == run("")[0] == 2
