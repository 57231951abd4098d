"""Errors by cause: an invalid message of a peer, or a wrong call in this node."""

from __future__ import annotations


class ProtocolError(Exception):
    """The base class of the errors that this package raises."""


class RemoteProtocolError(ProtocolError):
    """A peer's message breaks a rule. The node drops and counts it; the machine is unchanged."""


class TooEarly(RemoteProtocolError):
    """A bulk piece of a session that this node does not know yet: the sender should resend it shortly."""


class LocalProtocolError(ProtocolError):
    """This node called a machine in a way that its rules forbid: a bug here, never a peer's fault."""


class NotFiniteError(LocalProtocolError, ValueError):
    """An update holds a NaN or an infinity. Machines refuse it before they encode anything."""
