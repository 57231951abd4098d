"""Whose messages did not reach a member, as it says: it is excused, and in dispute with these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from protocol.actions import Due, Withheld
from protocol.aggregation.participant import Participant
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.ids import Key
from protocol.wire.masked_messages import Lacking
from protocol.wire.member_sets import everybody, members_in, set_of

GRACE_S = 2.0
"""So long after another's vote or sum shows that it has all, a member says whose messages it lacks (s).

With masked sums it is also the time for votes after that for JOINs.
"""
INDEPENDENT = (Due.JOIN, Due.SHARE, Due.VECTOR, Due.VOTE)
"""What a member can send without hearing from anybody else: it is due of who lacks others' messages, too."""
Complaints = Mapping[Key, Lacking]
"""What each member has said of the messages that it lacks."""


def complaint(participant: Participant, keys: Iterable[Key]) -> Lacking:
    """This member's statement that it lacks the messages of `keys`."""
    missing = set_of(keys, participant.members)
    return signing.sign(Lacking(participant.sid, participant.me, missing), participant.key)


def check_lacking(lacking: Lacking, participant: Participant) -> None:
    """Raises RemoteProtocolError unless a member says of others that it lacks their messages."""
    members, number = participant.members, participant.numbers[lacking.sender]
    if not 0 < lacking.missing <= everybody(len(members)) or lacking.missing >> number & 1:
        raise RemoteProtocolError("a LACKING of nobody, of strangers, or of its sender")
    signing.verify(lacking, lacking.sender)


def lacked(complaints: Complaints, participant: Participant) -> dict[Key, tuple[Key, ...]]:
    """Whose messages each member lacks, as it has said; of most of the others: then it is cut off itself."""
    members, most = participant.members, len(participant.others) // 2
    said = {key: members_in(each.missing, members) for key, each in complaints.items()}
    return {key: whose for key, whose in said.items() if len(whose) <= most}


def excused(complaints: Complaints, participant: Participant) -> dict[Key, tuple[Key, ...]]:
    """The others that cannot go on because third ones' messages are missing there, and whose.

    What this member sees itself is no dispute: who says that it lacks this one's message is not excused.
    """
    me = participant.me
    return {key: whose for key, whose in lacked(complaints, participant).items() if me not in (key, *whose)}


def withheld(
    participant: Participant, due: Due, keys: Collection[Key], complaints: Complaints
) -> Withheld | None:
    """What did not arrive here from these, as far as they owe it, and who is in dispute with whom."""
    believed = excused(complaints, participant)
    owing = tuple(key for key in keys if due in INDEPENDENT or key not in believed)
    pairs = ((key, other) for key, whose in sorted(believed.items()) for other in whose)
    disputes = tuple((key, other) for key, other in pairs if other not in owing)
    return Withheld(participant.sid, due, owing, disputes) if owing or disputes else None


def owed(found: Withheld | None, complaints: Complaints, participant: Participant) -> Withheld | None:
    """What is due of all that did not arrive here: who cannot go on owes nothing, but is in dispute.

    It is in none with who cannot go on itself, unless each of the two says so of the other: if one member
    waits for another that waits for a third, only the last two are in dispute.
    """
    if found is None or found.due in INDEPENDENT:
        return found
    lacks, believed = lacked(complaints, participant), excused(complaints, participant)
    keys = tuple(key for key in found.keys if key not in believed)
    pairs = ((key, other) for key in found.keys for other in believed.get(key, ()))
    disputes = tuple(
        (key, other) for key, other in pairs if other not in keys and key in lacks.get(other, (key,))
    )
    return Withheld(found.sid, found.due, keys, disputes) if keys or disputes else None
