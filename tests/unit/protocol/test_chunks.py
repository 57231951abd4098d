"""The chunks that a member holds, and lets go of."""

import numpy as np

from protocol.chunks import Chunks
from protocol.fixedpoint import FixedPoint
from protocol.layout import Layout
from protocol.masked_messages import Masked, MaskedHead
from protocol.masked_vector import MaskedVector, masks_of
from tests.parts import members

ONE, TWO = members(2)
SID, SEED = bytes(32), b"\x07" * 32


def test_when_a_session_is_over_what_came_is_let_go_and_ones_own_may_still_go_out():
    layout = Layout(7, 4)
    own = MaskedVector(
        np.zeros(7, dtype=np.float32),
        masks_of(0, SEED, [None, SEED], SEED),
        FixedPoint(4.0, 4),
        layout,
        ONE,
        SID,
    )
    chunks = Chunks(ONE.public, layout, own)
    chunks.put(Masked(MaskedHead(SID, TWO.public, 0, bytes(32)), bytes(32)))
    assert chunks.holds(TWO.public, 0)

    chunks.drop()

    assert not chunks.holds(TWO.public, 0)
    assert list(chunks.of([(TWO.public, 0), (ONE.public, 0)])) == [own.message(0)]
