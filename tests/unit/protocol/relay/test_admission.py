"""Admission to a relay: a licence for the inviter, and the inviter's list of members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import check_members, license_inviter, sign_members

RELAY, INVITER, OTHER = (NodeKey(bytes([number]) * 32) for number in (1, 2, 3))
SWARM = bytes(32)


def test_a_list_that_a_licensed_inviter_signed_is_admitted():
    members = sign_members(INVITER, SWARM, (OTHER.public, INVITER.public))
    assert members.keys == tuple(sorted((OTHER.public, INVITER.public)))
    check_members(members, RELAY.public, license_inviter(RELAY, INVITER.public))


@pytest.mark.parametrize(
    "change",
    [
        {"swarm": bytes([1]) * 32},
        {"keys": (OTHER.public,)},
        {"inviter": OTHER.public},
        {"signature": bytes(64)},
    ],
)
def test_a_list_that_was_changed_is_refused(change):
    members = replace(sign_members(INVITER, SWARM, (OTHER.public, INVITER.public)), **change)
    with pytest.raises(RemoteProtocolError):
        check_members(members, RELAY.public, license_inviter(RELAY, INVITER.public))


def test_the_licence_of_another_relay_is_refused():
    members = sign_members(INVITER, SWARM, (INVITER.public,))
    with pytest.raises(RemoteProtocolError):
        check_members(members, RELAY.public, license_inviter(OTHER, INVITER.public))
