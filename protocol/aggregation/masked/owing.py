"""Who withheld something from this member, when a masked session fails.

A member that lacks a chunk cannot add up, one without the totals cannot check them, and so on: if one member
withholds something, many wait for each other. What each member could send without hearing from anybody else
is therefore asked for first: its masked vector, then its vote for another view. A vote says which chunks its
sender holds. So a reducer whose total is missing is not named if it says that a third member's chunk did not
reach it: that member is for the reducer to name. It is named if it says so of this member's own chunk, which
this member has sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from protocol.actions import Due, Withheld
from protocol.aggregation.masked.reduction import Reduction
from protocol.aggregation.masked.view_change import ViewChanges
from protocol.aggregation.participant import Participant
from protocol.wire.messages import Key


def withheld(
    participant: Participant,
    views: ViewChanges,
    reduction: Reduction,
    answered: Collection[Key],
    among: Collection[Key],
) -> Withheld | None:
    """What did not arrive here, and from whom; None if all of it may be another's fault.

    `answered`: the members whose part in the last stage is here. `among`: the only members to be named: all,
    if the time is over; if the session ends before that, those that are lost, or were late for a view that is
    over: what others send may be on its way.
    """

    def owing(due: Due, keys: Iterable[Key]) -> Withheld | None:
        named = tuple(sorted(set(keys).intersection(among) - {participant.me}))
        return Withheld(participant.sid, due, named) if named else None

    def is_excused(reducer: Key, index: int) -> bool:
        owners = (owner for owner in reduction.included if owner != reducer)
        lacked = {owner for owner in owners if views.says_it_lacks(reducer, owner, index)}
        return bool(lacked) and participant.me not in lacked

    silent = set(participant.others).difference(views.voted(views.number)) if views.changing else set[Key]()
    first = owing(Due.VECTOR, reduction.vectors_lacking) or owing(Due.VOTE, silent)
    if first is not None:
        return first
    late = reduction.totals_lacking
    if late or reduction.vectors_lacking:
        return owing(Due.TOTAL, (key for index, key in late if not is_excused(key, index)))
    return owing(Due.ANSWER, reduction.unchecked or set(participant.others).difference(answered))
