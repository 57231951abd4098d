"""Shows the electors in a stopped node's folder and stores who is gone, for `python -m node.rejoin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from node.cli.options import reachable_path
from node.rejoin.electors import (
    KEY_DIGITS,
    KnownElectors,
    find,
    opened,
    quorum_words,
    read_electors,
    store_gone,
)
from node.runtime.waiting import command
from node.storage.folder_lock import STATE, Lock
from node.system.errors import ConfigError, UserError, counted
from protocol.wire.messages import Base

NONE = "none"
_LOUD = """\
WARNING: this gives up what keeps a swarm to one model.
If one of these is only cut off, or starts again later, it and others may make a model beside yours;
one of the two is then lost, with all that was learned in it. Declare only nodes that can never come back.
The owner of every node that is to go on has to declare the same, each with this command."""


def rejoin(out: Path, written: Sequence[str], is_sure: Callable[[], bool]) -> None:
    """Shows the electors; if names are `written`, stores that these are gone, once the owner `is_sure`.

    Raises UserError if a node runs in the folder; ConfigError for a folder without a node, and wrong names.
    """
    _check(out)
    lock = _locked(out)
    try:
        with opened(out) as database:
            known = read_electors(database)
            print("\n".join(_state(out, known)))
            if not written:
                print(_advice(out, known))
                return
            if NONE in written and len(set(written)) > 1:
                raise ConfigError("--gone none withdraws all: give it without another --gone")
            gone = frozenset(find(one, known) for one in written if one != NONE)
            if gone:
                print("\n".join(["", _LOUD, "", *_outcome(known, gone)]), flush=True)
                if not is_sure():
                    raise ConfigError("nothing is stored: confirm with --yes, or type yes on a terminal")
            store_gone(database, gone)
            if gone:
                print(f"stored: {counted(len(gone), 'elector')} gone for good; now start the node again")
            else:
                print("stored: nobody is gone for good")
    finally:
        lock.release()


def _check(out: Path) -> None:
    """Raises ConfigError if no node has ever used this folder."""
    if not reachable_path(str(out / STATE), "--out").is_file():
        raise ConfigError(f"--out {out} has no {STATE}; allowed: the --out of a node that has run")


def _locked(out: Path) -> Lock:
    try:
        return Lock(out)
    except ConfigError:
        raise
    except UserError:
        raise UserError(
            f"--out {out} is in use by a node: end it (Ctrl-C), run this, then start it again"
        ) from None


def _state(out: Path, known: KnownElectors) -> list[str]:
    """Returns the lines on the folder's model and electors."""
    lines = [f"folder: {out}", f"key: {known.key.hex()[:KEY_DIGITS]}", f"model: {_model(known.base)}"]
    electorate = known.electorate
    if electorate is None:
        lines.append("electors: of the first model, which this folder does not know:")
        lines.append(
            "  the peers that --peers and --listen name, or whom the tracker named with its first group"
        )
    else:
        anchor = "the model" if known.base.is_strong else "the last model with a quorum"
        who = f"those who made {anchor}, of generation {known.base.anchor}"
        lines.append(f"electors: {who}; {quorum_words(electorate, known.gone)}")
        lines += [f"  {known.named(one)}{_mark(one, known)}" for one in electorate.members]
    said = ", ".join(map(known.named, sorted(known.gone)))
    return [*lines, f"gone for good by the owner's word: {said or 'nobody'}"]


def _model(base: Base) -> str:
    how = "by a quorum" if base.is_strong else "without a quorum"
    return (
        f"generation {base.generation}, agreed {how}"
        if base.generation
        else "the first one, as it was set up"
    )


def _mark(elector: bytes, known: KnownElectors) -> str:
    if elector == known.key:
        return ", this node"
    return ", gone for good" if elector in known.gone else ""


def _advice(out: Path, known: KnownElectors) -> str:
    name = "HOST:PORT" if known.electorate is None else "NAME"
    return (
        f"{command(out)} --gone {name} ... would declare an elector gone for good: this node then makes "
        "models without it, with nodes whose owners declare the same; --help states the cost"
    )


def _outcome(known: KnownElectors, gone: frozenset[bytes]) -> list[str]:
    """Returns the lines on the consequences: who is gone, and what then makes a quorum."""
    lines = [f"gone for good: {', '.join(map(known.named, sorted(gone)))}"]
    return lines if known.electorate is None else [*lines, f"then {quorum_words(known.electorate, gone)}"]
