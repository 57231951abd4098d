"""What the nodes of a box have spent: no vector twice, and no session without its line in the ledger."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

import pytest

from node.storage.state import State
from tests.box.box import BoxNode


class Offers:
    """The sessions and vectors that each folder's node has spent, over all its lives."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._of: dict[Path, list[tuple[bytes, str]]] = defaultdict(list)
        spend, of = State.spend, self._of

        def spending(state: State, sid: bytes, *arguments: object) -> None:
            assert state.fresh is not None
            vector = hashlib.sha256(state.fresh.tobytes()).hexdigest()
            spend(state, sid, *arguments)  # type: ignore[arg-type]
            of[state._certificates.parent].append((sid, vector))

        patch.setattr(State, "spend", spending)

    def check(self, node: BoxNode) -> None:
        """Checks that the node's ledger holds all that it has spent, each vector and each round once."""
        sids, vectors = zip(*self._of[node.folder], strict=True)
        assert len(set(vectors)) == len(vectors)
        ledger = node.rows("select sid, round from ledger")
        assert len(sids) == len(ledger)
        assert {sid for sid, _ in ledger} == set(sids)
        assert len({number for _, number in ledger}) == len(ledger)
