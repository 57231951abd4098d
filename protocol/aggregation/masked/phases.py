"""The steps of a masked session, from its group to its end (`machine` and `rounds`, beside this).

Between `Spend` and the end two more tables are walked at the same time: what this member has said of the
totals (`release`), and in which view they are made (`view_change`).
"""

from __future__ import annotations

from enum import Enum

from protocol.transitions import Step, Table


class Phase(Enum):
    """Where a session is."""

    NEW = "new"
    JOINS = "joins"
    VOTES = "votes"
    MASKS = "masks"
    OPEN = "open"
    DONE = "done"


class Event(Enum):
    """What moves a session on."""

    START = "start"
    ALL_JOINS = "all n Joins"
    CERTIFICATE = "all n votes"
    SECRETS = "t Releases"
    TOTALS = "the totals, whole"
    ENDED = "time, loss, a lie"


STEPS: Table[Phase, Event] = {
    (Phase.NEW, Event.START): Step(Phase.JOINS, "a Join to each other member"),
    (Phase.JOINS, Event.ALL_JOINS): Step(Phase.VOTES, "Joined to all; there is a grace of 2 s for the votes"),
    (Phase.JOINS, Event.ENDED): Step(Phase.DONE, "Failed, the offer still fresh; Evidence of who lied"),
    (Phase.VOTES, Event.CERTIFICATE): Step(
        Phase.MASKS,
        "JoinCertificate to all, be it one's own or another's; Spend; Masked chunks to who adds them up",
    ),
    (Phase.VOTES, Event.ENDED): Step(Phase.DONE, "Failed, the offer still fresh; Evidence of who lied"),
    (Phase.MASKS, Event.SECRETS): Step(
        Phase.OPEN, "the secrets are open, here or by the ResultCertificate of who has finished"
    ),
    (Phase.MASKS, Event.ENDED): Step(Phase.DONE, "Failed, the offer spent; Evidence of who lied"),
    (Phase.OPEN, Event.TOTALS): Step(Phase.DONE, "Keep the totals; Completed with the ResultCertificate"),
    (Phase.OPEN, Event.ENDED): Step(Phase.DONE, "Failed, the offer spent"),
}
"""There are no other steps. In the phase `open`, a PieceRequest asks for each TotalPiece that is missing."""
