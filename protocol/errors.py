"""Errors split by blame: what a peer sent, and what we did ourselves."""

from __future__ import annotations


class ProtocolError(Exception):
    """Base of everything this package raises on purpose."""


class RemoteProtocolError(ProtocolError):
    """What a peer sent breaks a rule. The message is dropped and counted; the machine is unchanged."""


class TooEarly(RemoteProtocolError):
    """A bulk piece of a session that this node has not been told of yet: worth sending again shortly."""


class LocalProtocolError(ProtocolError):
    """This node used a machine in a way that its rules forbid: a bug of ours, never a peer's."""


class NotFiniteError(LocalProtocolError, ValueError):
    """An update holds a NaN or an infinity. It is refused before anything is encoded."""
