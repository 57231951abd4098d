"""The transition tables of a federation's server and client nodes (protocol.federation.server)."""

from __future__ import annotations

from enum import Enum

from protocol.transitions import Step, Table


class ServerPhase(Enum):
    """What the server is doing."""

    ASSEMBLING = "assembling"
    IDLE = "idle"
    GATHERING = "gathering"
    CLOSED = "closed"


class ServerEvent(Enum):
    """What moves the server from one phase to the next."""

    ALL_HERE = "all nodes are here"
    TIME = "time is over"
    BEGIN = "begin"
    LAST = "nobody left at work"
    CLOSE = "close"


SERVER: Table[ServerPhase, ServerEvent] = {
    (ServerPhase.ASSEMBLING, ServerEvent.ALL_HERE): Step(
        ServerPhase.IDLE, "Assembled; each Enlist was answered by Enlisted"
    ),
    (ServerPhase.ASSEMBLING, ServerEvent.TIME): Step(
        ServerPhase.IDLE, "Assembled, without the nodes that are late; Fatal where none is here"
    ),
    (ServerPhase.IDLE, ServerEvent.BEGIN): Step(
        ServerPhase.GATHERING, "an Order and each ModelPiece to the nodes of the chosen clients"
    ),
    (ServerPhase.GATHERING, ServerEvent.LAST): Step(
        ServerPhase.IDLE,
        "Gathered: each node at work has sent every UploadPiece, is gone, or was silent for long",
    ),
    (ServerPhase.IDLE, ServerEvent.CLOSE): Step(
        ServerPhase.CLOSED, "Done to every node, and to whoever enlists from then on; Closed"
    ),
    (ServerPhase.GATHERING, ServerEvent.CLOSE): Step(
        ServerPhase.CLOSED, "the same: who is still at work is not waited for"
    ),
}


class LinkPhase(Enum):
    """A client node's connection to its server."""

    ENLISTING = "enlisting"
    ENLISTED = "enlisted"
    IN_DOUBT = "in doubt"
    ENDED = "ended"


class LinkEvent(Enum):
    """What changes a client node's connection to its server."""

    ENLISTED = "Enlisted"
    LOST = "unreachable"
    TIME = "time is over"
    DONE = "Done"


_NOBODY = "Fatal: no server answered"
LINK: Table[LinkPhase, LinkEvent] = {
    (LinkPhase.ENLISTING, LinkEvent.ENLISTED): Step(LinkPhase.ENLISTED, "an Enlist again every 10 s"),
    (LinkPhase.ENLISTING, LinkEvent.TIME): Step(LinkPhase.ENDED, _NOBODY),
    (LinkPhase.ENLISTING, LinkEvent.DONE): Step(LinkPhase.ENDED, "Closed"),
    (LinkPhase.ENLISTED, LinkEvent.ENLISTED): Step(
        LinkPhase.ENLISTED, "the server still counts on this node"
    ),
    (LinkPhase.ENLISTED, LinkEvent.LOST): Step(LinkPhase.IN_DOUBT, "an Enlist at once, and every 0.5 s"),
    (LinkPhase.ENLISTED, LinkEvent.DONE): Step(LinkPhase.ENDED, "Closed"),
    (LinkPhase.IN_DOUBT, LinkEvent.ENLISTED): Step(LinkPhase.ENLISTED, "it was there after all"),
    (LinkPhase.IN_DOUBT, LinkEvent.LOST): Step(LinkPhase.ENDED, "Fatal: the server is gone"),
    (LinkPhase.IN_DOUBT, LinkEvent.TIME): Step(LinkPhase.ENDED, _NOBODY),
    (LinkPhase.IN_DOUBT, LinkEvent.DONE): Step(LinkPhase.ENDED, "Closed"),
}


class WorkPhase(Enum):
    """Whether a client node is receiving a model."""

    IDLE = "idle"
    FILLING = "filling"


class WorkEvent(Enum):
    """What changes a client node's work."""

    ORDER = "an Order"
    MODEL = "the model, whole"


WORK: Table[WorkPhase, WorkEvent] = {
    (WorkPhase.IDLE, WorkEvent.ORDER): Step(WorkPhase.FILLING, "the ModelPieces of its round are taken in"),
    (WorkPhase.FILLING, WorkEvent.ORDER): Step(
        WorkPhase.FILLING, "that of a later round: the one before is over"
    ),
    (WorkPhase.FILLING, WorkEvent.MODEL): Step(
        WorkPhase.IDLE, "Train; then each UploadPiece of each client, unless that round is over"
    ),
}
"""There are no other steps in any of the three tables."""
