"""What the page shows of a swarm by invitation: from the files in its folder alone."""

from dataclasses import replace

import pytest

from benchmarks.page.server import node_view
from node.desk.swarm_views import folder_of_room, membership_view, standing_of
from node.invitation.kept import INVITING, LATER, Inviting, Joining, keep_inviting, keep_joining
from node.invitation.key import key_file
from node.observe.views import Peer, Presence
from node.storage.key_file import write_key
from node.storage.swarm_file import Own, Swarm, write_swarm
from node.storage.vouches import keep_vouch
from node.system.errors import ConfigError
from protocol.crypto.node_key import NodeKey
from protocol.invitation.messages import Standing
from protocol.invitation.roster import Member, vouch_for
from protocol.invitation.words import key_words
from protocol.wire.endpoints import of_key
from tests.invitations import INVITER, JOINER, OTHER, PLACE, RELAYS, ROSTER, SEAT, TASK, UNTIL

OWN = Own("/data/a.csv")
CODE = "relay.example/48213-otter-width-salt"


def inviting(*seats) -> Inviting:
    return Inviting("ward", "Ward A", TASK, RELAYS, seats, OWN)


def test_a_seat_shows_its_code_until_somebody_has_it(tmp_path):
    free = replace(SEAT, tries=2)
    seats = [
        free,
        replace(SEAT, name="Ward C", key=JOINER.public, standing=Standing.ACCEPTED),
        replace(SEAT, name="Ward D", tries=0),
        replace(SEAT, name="Ward E", until=UNTIL - 100),
    ]
    keep_inviting(tmp_path, inviting(*seats))
    key_file(tmp_path).parent.mkdir()
    write_key(key_file(tmp_path), bytes([1]) * 32)
    shown = membership_view(tmp_path, None, UNTIL - 50)
    assert (standing_of(tmp_path), shown["standing"]) == ("invites", "invites")
    assert (shown["words"], shown["members"], shown["waits"]) == (key_words(INVITER.public), [], False)
    place = {"name": "Ward B", "code": CODE, "until": UNTIL, "tries": 2}
    assert shown["seats"][0] == {**place, "state": "free", "words": ""}
    others = [(seat["state"], seat["code"], seat["words"]) for seat in shown["seats"][1:]]
    assert others == [("here", "", key_words(JOINER.public)), ("burnt", "", ""), ("over", "", "")]


def test_who_joins_waits_once_it_has_accepted(tmp_path):
    path = tmp_path / "runs" / "join-48213"
    assert folder_of_room(tmp_path, "48213") == ""
    keep_joining(path, Joining(PLACE, OWN))
    assert (standing_of(path), membership_view(path, None, 0.0)["waits"]) == ("joins", False)
    keep_joining(path, Joining(replace(PLACE, standing=Standing.ACCEPTED), OWN))
    assert membership_view(path, None, 0.0)["waits"] is True
    path.rename(tmp_path / "runs" / "ward")
    assert folder_of_room(tmp_path, "48213") == "runs/ward"
    assert folder_of_room(tmp_path, "99999") == ""


def test_a_closed_list_shows_its_members_and_who_is_here(tmp_path):
    keep_inviting(tmp_path, inviting(SEAT))
    write_swarm(tmp_path, Swarm(ROSTER, OWN).without(OTHER.public))
    key_file(tmp_path).parent.mkdir()
    write_key(key_file(tmp_path), bytes([1]) * 32)
    usual = (of_key(JOINER.public), JOINER.public.hex()[:16], "unreachable", 3, False, False, False)
    peer = Peer(*usual, "it is away", presence=Presence("", 7.0, "it left"))
    shown = membership_view(tmp_path, replace(node_view(0), peers=(peer,)), 0.0)
    assert (shown["standing"], shown["seats"]) == ("closed", [])
    a, b, c = shown["members"]
    assert (a["name"], a["is_own"], a["invited"], a["contact"]) == ("Ward A", True, True, "")
    assert (b["name"], b["words"]) == ("Ward B", key_words(JOINER.public))
    assert (b["contact"], b["why"]) == ("unreachable", "it is away")
    assert (b["presence"], c["presence"]) == ({"relay": "", "since": 7.0, "why": "it left"}, None)
    assert (c["removed"], b["removed"]) == (True, False)


def test_a_folder_in_which_nobody_was_invited_shows_nothing(tmp_path):
    shown = membership_view(tmp_path, None, 0.0)
    assert shown == {"standing": "", "words": "", "seats": [], "waits": False, "members": []}


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / INVITING).write_bytes(b"garbage")
    with pytest.raises(ConfigError, match="is damaged"):
        membership_view(tmp_path, None, 0.0)


def test_newcomers_are_shown_with_who_vouches_for_them_and_codes_of_a_later_invitation(tmp_path):
    late = NodeKey(bytes([5]) * 32).public
    write_swarm(tmp_path, Swarm(ROSTER, OWN))
    keep_vouch(tmp_path, vouch_for(OTHER, ROSTER, Member("Ward D", late)))
    keep_inviting(tmp_path / LATER, replace(inviting(SEAT), so_far=(ROSTER,)))
    shown = membership_view(tmp_path, None, UNTIL - 50)
    assert [seat["code"] for seat in shown["seats"]] == [CODE]
    by = {one["name"]: (one["vouched_by"], one["words"]) for one in shown["members"]}
    assert by["Ward D"] == ("Ward C", key_words(late))
    keep_inviting(tmp_path / LATER, replace(inviting(SEAT), so_far=(ROSTER,), roster=(ROSTER,)))
    assert membership_view(tmp_path, None, UNTIL - 50)["seats"] == []
