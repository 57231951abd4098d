"""An inviter and joiners over the rooms of a relay in memory, through cuts and restarts of either."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from node.invitation.inviting import Reception, code_of, new_seats, spent_seats, with_new_codes
from node.invitation.joining import Decision, NotJoined, Visitor
from node.invitation.kept import INVITING, JOINING, Inviting, Joining, kept_inviting, kept_joining
from node.invitation.rooms import Shut
from node.storage.swarm_file import AGREED, SWARM, TASK, Own, Swarm, read_swarm, write_swarm
from node.system.errors import ConfigError, UserError
from node.system.system import SYSTEM
from protocol.crypto.node_key import NodeKey
from protocol.invitation.inviter import News
from protocol.invitation.joiner import place_of
from protocol.invitation.messages import Standing
from protocol.invitation.roster import Member, close_list
from protocol.invitation.words import Code
from protocol.relay.room_messages import OpenRooms
from tests.relay_rooms import MemoryRelay

TEXT = b'[task]\nname = "ward"\n'
A, B, C = (NodeKey(bytes([number]) * 32) for number in (1, 2, 3))


class Told:
    """An inviter's owner, who remembers. With `closes`, the list is closed as soon as all are here."""

    def __init__(self, closes: bool = True) -> None:
        self.told: list[tuple[str, News]] = []
        self.troubles: list[str] = []
        self.voided: asyncio.Queue[tuple[str, Code | None]] = asyncio.Queue()
        self.all_here = asyncio.Event()
        self.reception: Reception | None = None

    def news(self, seat, news) -> None:
        self.told.append((seat.name, news))
        if self.reception is not None and self.reception.are_all_here:
            self.all_here.set()

    def trouble(self, text) -> None:
        self.troubles.append(text)

    def lost(self, name, code) -> None:
        self.voided.put_nowait((name, code))


class Says:
    """A joiner's owner."""

    def __init__(self, decision=Decision.JOIN, confirms=True) -> None:
        self.decision, self.confirms = decision, confirms
        self.seen: list[object] = []
        self.troubles: list[str] = []
        self.waits = asyncio.Event()
        self.before_answer = asyncio.Event()
        self.before_answer.set()

    async def decide(self, invitation):
        self.seen.append(invitation)
        return self.decision

    async def answer(self, roster):
        self.seen.append(roster)
        await self.before_answer.wait()
        return self.confirms

    def waiting(self) -> None:
        self.waits.set()

    def trouble(self, text) -> None:
        self.troubles.append(text)


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


class Scene:
    """An inviter, Ward A, with codes for Ward B and Ward C."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.relay = MemoryRelay()
        self.watcher = Told()

    async def open(self) -> Scene:
        names = ("Ward B", "Ward C")
        async with self.relay.opened(A, OpenRooms(b"", b"", (), 2)) as (_, relay, rooms):
            seats = new_seats(names, rooms, int(SYSTEM.clock.wall()), SYSTEM)
            self.state = Inviting("ward", "Ward A", TEXT, (relay,), seats, Own("a.csv"))
        self.begin()
        return self

    def begin(self) -> None:
        """Starts, or starts again from what is kept."""
        self.state = kept_inviting(self.folder / "a") or self.state
        self.reception = Reception(self.folder / "a", A, self.state, self.watcher)
        self.watcher.reception = self.reception
        self.serving = asyncio.create_task(self.reception.serve(partial(self.relay.opened, A), at_once))

    async def end(self) -> None:
        """The inviter's process ends."""
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)

    def code(self, number: int) -> Code:
        return code_of(self.state, self.state.seats[number])

    def visitor(self, number: int, key: NodeKey, owner: Says, code: Code | None = None) -> Visitor:
        folder = self.folder / f"{number}"
        kept = kept_joining(folder) or Joining(place_of(code or self.code(number)), Own(f"{number}.csv"))
        return Visitor(folder, key, kept, owner)

    def join(self, number: int, key: NodeKey, owner: Says | None = None, code: Code | None = None):
        visitor = self.visitor(number, key, owner or Says(), code)
        room = (code or self.code(number)).room
        return asyncio.create_task(visitor.join(partial(self.relay.entered, room), at_once))


@pytest.fixture
async def scene(tmp_path):
    opened = await Scene(tmp_path).open()
    yield opened
    await opened.end()


async def test_all_join_and_have_one_list_and_what_a_start_needs(scene):
    joiners = [scene.join(0, B), scene.join(1, C)]
    await scene.watcher.all_here.wait()
    roster = await scene.reception.close_list()
    assert await asyncio.gather(*joiners) == [roster, roster]
    await scene.serving
    assert {s.standing for s in scene.reception.state.seats} == {Standing.CONFIRMED}
    with pytest.raises(Shut, match="it is over, used or mistyped"):
        await scene.join(7, C, code=scene.code(0))
    for name, data in (("a", "a.csv"), ("0", "0.csv"), ("1", "1.csv")):
        swarm = read_swarm(scene.folder / name)
        assert (swarm.roster, swarm.own) == (roster, Own(data))
        assert (scene.folder / name / TASK).read_bytes() == TEXT
    names = {A.public: "Ward A", B.public: "Ward B", C.public: "Ward C"}
    assert swarm.names == names
    for path in scene.folder.rglob("*.*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


async def test_a_wrong_code_costs_a_try_and_both_hear_of_it(scene):
    code = scene.code(0)
    wrong = Code(
        code.relay, code.room, "acid-acid-acid" if code.secret != "acid-acid-acid" else "acorn-acid-acid"
    )
    with pytest.raises(NotJoined, match="wrong code: 2 tries are left"):
        await scene.join(0, B, code=wrong)
    assert scene.watcher.told == [("Ward B", News.WRONG)]
    kept = kept_inviting(scene.folder / "a")
    assert kept is not None
    assert [seat.tries for seat in kept.seats] == [2, 3]


async def test_a_code_is_used_once_and_the_second_hears_it(scene):
    owner = Says()
    first = scene.join(0, B, owner)
    await owner.waits.wait()
    with pytest.raises(NotJoined, match="this code is used up"):
        await scene.join(7, C, code=scene.code(0))
    assert scene.watcher.told[-1] == ("Ward B", News.REUSED)
    scene.join(1, C)
    await scene.watcher.all_here.wait()
    assert await scene.reception.close_list() == await first


async def test_who_is_back_before_its_old_connection_has_ended_leaves_place_for_another(scene):
    owner = Says()
    joins = scene.join(0, B, owner)
    for _ in range(3):
        await owner.waits.wait()
        owner.waits.clear()
        scene.relay.cut_joiners(is_noticed=False)
    await owner.waits.wait()
    assert [news for _, news in scene.watcher.told].count(News.BACK) == 3
    with pytest.raises(NotJoined, match="this code is used up"):
        await scene.join(7, C, code=scene.code(0))
    scene.join(1, C)
    await scene.watcher.all_here.wait()
    assert await scene.reception.close_list() == await joins


async def test_whose_data_do_not_fit_leaves_and_may_come_again(scene):
    with pytest.raises(NotJoined, match="the code is still good"):
        await scene.join(0, B, Says(Decision.UNFIT))
    with pytest.raises(NotJoined, match="the code is still good"):
        await scene.join(0, B, Says(Decision.LATER))
    owner = Says()
    scene.join(0, B, owner)
    await owner.waits.wait()
    assert scene.watcher.told[:2] == [("Ward B", News.INVITED), ("Ward B", News.MISFIT)]


async def test_a_list_that_is_declined_is_nobodys_but_the_others(scene):
    joiners = [scene.join(0, B), scene.join(1, C, Says(confirms=False))]
    await scene.watcher.all_here.wait()
    await scene.reception.close_list()
    assert await joiners[0]
    with pytest.raises(NotJoined, match="the list was declined"):
        await joiners[1]
    await scene.serving
    assert not (scene.folder / "1" / SWARM).exists()


async def test_both_ends_may_be_cut_off_and_start_again_at_any_time(scene):
    owner = Says()
    joining = scene.join(0, B, owner)
    await owner.waits.wait()
    owner.waits.clear()
    scene.relay.cut_joiners()
    await owner.waits.wait()  # it came back by itself
    assert owner.troubles == []
    owner.waits.clear()
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
    await scene.end()
    scene.begin()
    again = Says()
    joining = scene.join(0, B, again)
    await again.waits.wait()
    scene.relay.cut_inviters()
    second = scene.join(1, C)
    await scene.watcher.all_here.wait()
    roster = await scene.reception.close_list()
    assert [*await asyncio.gather(joining, second)] == [roster, roster]
    assert again.seen == [roster]  # the invitation was accepted before
    assert News.BACK in {news for _, news in scene.watcher.told}
    assert scene.watcher.troubles


async def test_a_member_that_is_away_while_the_list_is_closed_gets_it_later(scene):
    owner = Says()
    joining = scene.join(0, B, owner)
    await owner.waits.wait()
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
    other = scene.join(1, C)
    await scene.watcher.all_here.wait()
    roster = await scene.reception.close_list()
    await other
    assert [seat.name for seat in scene.reception.waited_for] == ["Ward B"]
    await scene.end()
    scene.begin()
    assert await scene.join(0, B) == roster
    await scene.serving


async def test_who_confirmed_needs_the_inviter_no_more(scene):
    owner = Says()
    owner.before_answer.clear()
    joining, other = scene.join(0, B, owner), scene.join(1, C)
    await scene.watcher.all_here.wait()
    roster = await scene.reception.close_list()
    await other
    await scene.end()
    scene.relay.cut_joiners()
    owner.before_answer.set()
    assert await joining == roster
    assert owner.troubles == []


async def test_a_relay_that_knows_no_such_room_ends_it(scene):
    with pytest.raises(Shut, match="nobody waits for this code"):
        await scene.join(0, B, code=Code("relay.example:443", "99999", "acid-acid-acid"))


async def test_a_code_is_proved_to_three_strangers_at_most(scene):
    code = scene.code(0)
    wrong = Code(code.relay, code.room, "acid-acid-acid")
    for _ in range(3):
        with pytest.raises(UserError):
            await scene.join(0, B, code=wrong)
    with pytest.raises(NotJoined, match="tried three times"):
        await scene.join(0, B)
    kept = kept_joining(scene.folder / "0")
    assert kept is not None
    assert kept.place.unanswered == 3


async def test_two_codes_are_not_used_with_one_key(scene):
    scene.join(0, B)
    scene.join(1, B)
    await scene.watcher.all_here.wait()
    with pytest.raises(ConfigError, match='"Ward B" and "Ward C" joined with one key'):
        await scene.reception.close_list()


@pytest.mark.parametrize("name", [INVITING, JOINING])
def test_a_damaged_state_is_refused_in_one_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x93garbage")
    with pytest.raises(ConfigError, match=f"{name} is damaged"):
        (kept_inviting if name == INVITING else kept_joining)(tmp_path)


async def test_a_code_that_is_burnt_or_too_old_gets_a_successor_and_the_others_stay(scene):
    await scene.end()
    now = int(SYSTEM.clock.wall())
    taken, free = scene.state.seats
    burnt = replace(scene.state, seats=(taken, replace(free, tries=0)))
    dial = partial(scene.relay.opened, A)
    renewed = await with_new_codes(burnt, spent_seats(burnt, now), dial, now)
    assert renewed.seats[0] == taken
    assert renewed.seats[1].room != free.room
    assert (renewed.seats[1].name, renewed.seats[1].tries) == ("Ward C", 3)
    old = replace(scene.state, seats=(replace(taken, key=B.public, until=0), replace(free, until=0)))
    renewed = await with_new_codes(old, spent_seats(old, now), dial, now)
    assert renewed.seats[0] == old.seats[0]
    assert renewed.seats[1].until > now
    assert await with_new_codes(scene.state, spent_seats(scene.state, now), dial, now) is scene.state
    with pytest.raises(Shut):
        await scene.join(1, C)  # the room of the code before


async def test_a_room_that_another_inviter_took_is_noticed(scene):
    """While the list is open its seat gets a new code; after that the owner hears it once."""
    old, kept = scene.code(0), scene.code(1)
    scene.relay.start_again(taken={old.room: C})
    name, new = await scene.watcher.voided.get()
    assert (name, new.relay, new.room != old.room) == ("Ward B", old.relay, True)
    scene.state = scene.reception.state
    assert scene.code(1) == kept
    owner = Says()
    owner.before_answer.clear()
    joining, joined = scene.join(0, B, owner), scene.join(1, C)
    await scene.watcher.all_here.wait()
    await scene.reception.close_list()
    await joined
    scene.relay.start_again(taken={new.room: C})
    assert await scene.watcher.voided.get() == ("Ward B", None)
    scene.relay.start_again(taken={new.room: C})
    for _ in range(50):
        await asyncio.sleep(0)
    assert scene.watcher.voided.empty()
    joining.cancel()


LATE = NodeKey(bytes([4]) * 32)


async def later(scene, name: str, inviter: NodeKey = B, agreed: bytes = b"") -> Scene:
    """One of two members that learn already, of whom A invited B, invites somebody in its own folder."""
    there = scene.relay
    async with there.opened(A, OpenRooms(b"", b"", (), 0)) as (_, relay, _):
        members = [Member("Ward A", A.public), Member("Ward B", B.public)]
        roster = close_list(A, members, TEXT, (relay,), bytes(16))
    write_swarm(scene.folder, Swarm(roster, Own("b.csv")))
    asked = OpenRooms(b"", b"", (), 1, (roster.credentials(relay),))
    async with there.opened(inviter, asked) as (_, _, rooms):
        seats = new_seats((name,), rooms, int(SYSTEM.clock.wall()), SYSTEM)
    me = {A.public: "Ward A", B.public: "Ward B"}[inviter.public]
    scene.state = Inviting("ward", me, TEXT, (relay,), seats, Own("b.csv"), so_far=(roster,), agreed=agreed)
    scene.reception = Reception(scene.folder / "later", inviter, scene.state, scene.watcher)
    scene.watcher.reception = scene.reception
    await scene.end()
    dial = partial(there.opened, inviter)
    scene.serving = asyncio.create_task(scene.reception.serve(dial, at_once))
    return scene


async def test_a_member_that_is_not_the_inviter_invites_a_later_one_by_its_word(scene):
    scene = await later(scene, "Ward D", agreed=b"agreed")
    owner = Says()
    joining = scene.join(0, LATE, owner)
    await scene.watcher.all_here.wait()
    roster = await scene.reception.close_list()
    assert await joining == roster
    await scene.serving
    assert (roster.sponsor(LATE.public), roster.inviter) == (B.public, A.public)
    invitation, shown = owner.seen
    assert (invitation.inviter, invitation.others, invitation.learned) == ("Ward B", ("Ward A",), b"agreed")
    assert shown == roster
    for folder in (scene.folder, scene.folder / "0"):
        assert read_swarm(folder).roster == roster
        assert LATE.public in read_swarm(folder).learned_with
    assert (scene.folder / "0" / AGREED).read_bytes() == b"agreed"
    scene.reception.keep_list()  # as after a restart
    assert read_swarm(scene.folder).roster == roster


async def test_nobody_gets_a_second_place_by_a_later_invitation(scene):
    scene = await later(scene, "Ward D")
    joining = scene.join(0, A)
    await scene.watcher.all_here.wait()
    with pytest.raises(ConfigError, match='"Ward A" and "Ward D" joined with one key'):
        await scene.reception.close_list()
    joining.cancel()
