"""The known answers are what the reference yields, and what the product yields."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.aggregation.additive.machine import Additive
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.additive.total import Total
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.participant import Participant
from protocol.crypto import prg
from protocol.crypto.node_key import NodeKey
from protocol.crypto.sealing import Ephemeral
from protocol.errors import LocalProtocolError, NotFiniteError, RemoteProtocolError
from protocol.vectors.pieces import base_digest
from protocol.wire import signing
from protocol.wire.ids import RESIGNED
from protocol.wire.messages import Announce, Base, Group, Ready, Sum
from tests.parts import NOW, mean_of, outbox
from tests.vectors import generate

HERE = Path(__file__).parent
NAMES = sorted(path.name for path in HERE.glob("*.json"))


def load(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def binary(value: str) -> bytes:
    return bytes.fromhex(value)


def record(kind: type, values: list[Any]) -> Any:
    """A record from its hexed fields."""
    nested = {"announce": Announce, "base": Base}
    names = [field.name for field in fields(kind)]
    texts = {"endpoint", "task"}
    out: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if name in nested:
            out[name] = record(nested[name], value)
        elif isinstance(value, list):
            out[name] = tuple(binary(each) for each in value)
        else:
            out[name] = binary(value) if isinstance(value, str) and name not in texts else value
    return kind(**out)


@pytest.fixture(scope="module")
def session() -> Any:
    return load("session")


@pytest.fixture(scope="module")
def group(session) -> Group:
    readys, attempt, coordinator, excused, electors, signature, _ = session["group"]
    return Group(
        readys=tuple(record(Ready, ready) for ready in readys),
        attempt=attempt,
        coordinator=binary(coordinator),
        excused=tuple(record(Announce, announce) for announce in excused),
        electors=tuple(binary(elector) for elector in electors),
        signature=binary(signature),
    )


def keys_of(session: Any) -> list[NodeKey]:
    return [NodeKey(binary(secret)) for secret in session["secrets"]]


def test_every_file_is_what_the_reference_yields():
    made = generate.files()

    assert sorted(made) == NAMES
    for name in NAMES:
        assert json.loads(json.dumps(made[name])) == json.loads((HERE / name).read_text(encoding="utf-8")), (
            name
        )


# -- masks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", load("masks")["cases"], ids=lambda case: f"{case['seed'][:4]}-{case['start']}"
)
def test_mask_words_are_the_known_ones_from_any_offset(case):
    ahead = case["start"] % 4
    words = prg.words(binary(case["seed"]), case["start"] - ahead, len(case["words"]) + ahead)

    assert words[ahead:].tolist() == case["words"]


@pytest.mark.parametrize("case", load("masks")["negative"], ids=lambda case: case["why"])
def test_other_seeds_and_places_give_no_word_of_the_known_ones(case):
    words = prg.words(binary(case["seed"]), case["start"], len(case["not"])).tolist()

    assert not set(words) & set(case["not"])


# -- fixed point ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", load("rounding")["cases"], ids=lambda case: f"{case['members']}-{case['bound']}"
)
def test_stochastic_rounding_with_a_known_seed_gives_the_known_words(case):
    vector = np.array(case["vector"], dtype="<f4")
    words, clipped = FixedPoint(case["bound"], case["members"]).encode(
        vector, binary(load("rounding")["seed"])
    )

    assert words.tolist() == case["words"]
    assert clipped == case["clipped"]


@pytest.mark.parametrize("case", load("rounding")["negative"], ids=lambda case: case["why"])
def test_what_is_no_number_is_not_encoded(case):
    vector = np.array([0.0, float(case["value"])], dtype="<f4")

    with pytest.raises(NotFiniteError):
        FixedPoint(1.0, 3).encode(vector, bytes(32))


# -- session ids and records ---------------------------------------------------------------------------


def test_the_session_id_is_the_known_one(session, group):
    assert signing.session_id(group).hex() == session["sid"]
    assert (
        signing.contributors_hash(tuple(ready.key for ready in group.readys)).hex() == session["contributors"]
    )


def test_a_later_step_of_a_run_has_the_known_session_id(session, group):
    generation, digest, members, sid, anchor = session["later"]["base"]
    base = Base(generation, binary(digest), members, binary(sid), anchor)
    later = replace(group, on=(base,))

    assert (later.step, later.base, later.run) == (2, base, group)
    assert signing.session_id(later).hex() == session["later"]["sid"]
    signing.verify(later, group.coordinator)


def test_the_session_id_does_not_depend_on_the_order_of_the_readys(session, group):
    assert signing.session_id(replace(group, readys=group.readys[::-1])).hex() == session["sid"]


@pytest.mark.parametrize("case", load("session")["negative"], ids=lambda case: case["why"])
def test_a_changed_group_has_another_session_id(session, case):
    assert case["sid"] != session["sid"]


def test_changed_groups_have_the_known_session_ids(session, group):
    blank = replace(group.readys[2], nonce=bytes(16))
    changed = [
        replace(group, attempt=group.attempt + 1),
        replace(group, readys=group.readys[:2]),
        replace(group, readys=(*group.readys[:2], blank)),
        replace(group, excused=()),
        replace(group, electors=group.electors[:2]),
    ]

    assert [signing.session_id(one).hex() for one in changed] == [case["sid"] for case in session["negative"]]


def test_known_signatures_of_announcements_readys_and_groups_are_good(group):
    signing.verify(group, group.coordinator)
    for ready in group.readys:
        signing.verify(ready.announce, ready.key)
        signing.verify(ready, ready.key)


def test_signing_again_gives_the_known_signatures(session, group):
    for key, ready in zip(keys_of(session), group.readys, strict=True):
        assert signing.sign(ready.announce, key) == ready.announce
        assert signing.sign(ready, key) == ready
    assert signing.sign(group, keys_of(session)[0]) == group


def test_the_known_signature_of_a_follower_is_good_and_covers_that_it_follows_and_resigned(session):
    follower, key = record(Announce, session["follower"]), keys_of(session)[1]

    assert (follower.following, follower.leaving) == (True, False)
    assert signing.sign(replace(follower, signature=b""), key) == follower
    signing.verify(follower, follower.key)
    assert follower.open == (RESIGNED,)
    others = ({"following": False}, {"following": False, "leaving": True}, {"open": ()})
    for changed in (replace(follower, **each) for each in others):
        with pytest.raises(RemoteProtocolError, match="bad announce signature"):
            signing.verify(changed, follower.key)


@pytest.mark.parametrize("field", ["ephemeral", "nonce", "coordinator", "electors", "weak", "gone"])
def test_a_known_signature_does_not_cover_another_ready(group, field):
    ready = group.readys[0]
    other = {"weak": not ready.weak, "gone": ()}.get(field)
    changed = replace(ready, **{field: bytes(len(getattr(ready, field))) if other is None else other})

    with pytest.raises(RemoteProtocolError, match="bad ready signature"):
        signing.verify(changed, ready.key)


# -- sealing -------------------------------------------------------------------------------------------


def share_header(sid: bytes, sender: bytes, recipient: bytes, index: int) -> bytes:
    return b"share" + sid + sender + recipient + index.to_bytes(4, "big")


class Ends:
    """Both ends of the known sealed share."""

    def __init__(self, session: Any, group: Group) -> None:
        secrets = [binary(secret) for secret in session["ephemeral_secrets"]]
        self.near, self.far = Ephemeral(secrets[0]), Ephemeral(secrets[1])
        self.sid = binary(session["sid"])
        self.sender, self.recipient = group.readys[0].key, group.readys[1].key

    def open(self, case: Any, changed: str = "") -> bytes:
        """Opens a known sealed share, with one thing changed."""
        sid, sender, recipient, index = self.sid, self.sender, self.recipient, case["index"]
        sealed = bytearray(binary(case["sealed"]))
        match changed:
            case "sid":
                sid = bytes(32)
            case "sender":
                sender = bytes(32)
            case "recipient":
                recipient = bytes(32)
            case "direction":
                sender, recipient = recipient, sender
            case "index":
                index += 1
            case "first bit":
                sealed[0] ^= 1
            case "last bit":
                sealed[-1] ^= 128
            case "cut off":
                del sealed[-1]
        header = share_header(sid, sender, recipient, index) + (b"!" if changed == "header" else b"")
        return self.far.channel(self.near.public, sid, sender, recipient).open(index, header, bytes(sealed))


@pytest.mark.parametrize("case", load("sealing")["cases"], ids=lambda case: f"piece {case['index']}")
def test_a_sealed_share_is_the_known_one_and_opens(session, group, case):
    ends = Ends(session, group)
    header = share_header(ends.sid, ends.sender, ends.recipient, case["index"])
    channel = ends.near.channel(ends.far.public, ends.sid, ends.sender, ends.recipient)

    assert channel.seal(case["index"], header, binary(case["plain"])).hex() == case["sealed"]
    assert ends.open(case).hex() == case["plain"]


@pytest.mark.parametrize("changed", [case["changed"] for case in load("sealing")["negative"]])
@pytest.mark.parametrize("case", load("sealing")["cases"], ids=lambda case: f"piece {case['index']}")
def test_a_known_sealed_share_does_not_open_when_anything_is_changed(session, group, case, changed):
    with pytest.raises(RemoteProtocolError, match="does not open"):
        Ends(session, group).open(case, changed)


# -- sums ----------------------------------------------------------------------------------------------


def run(session: Any, group: Group, kind: str) -> tuple[str, list[Sum], Any, list[Any]]:
    """A whole session over the known group: (first share, the sums, the mean, the spends)."""
    known = load("sums")
    settings = ShareSettings(kind, known["clip"], known["max_share_value"])
    vectors = [np.array(line, dtype="<f4") for line in known["vectors"]]
    participants = [
        Participant(group, 1, key, Ephemeral(binary(secret)), len(vectors[0]), 15.0, 15.0)
        for key, secret in zip(keys_of(session), session["ephemeral_secrets"], strict=True)
    ]
    machines = [Additive(participant, settings.for_group(3)) for participant in participants]
    rands = [binary(rand) for rand in known["rands"]]
    starts = [m.start(x, rand, NOW) for m, x, rand in zip(machines, vectors, rands, strict=True)]
    keys = machines[0].members
    boxes = {(i, j): outbox(starts[i], keys[j]) for i in range(3) for j in range(3)}
    ends = [[a for i in range(3) for s in boxes[i, j] for a in machines[j].receive(s, NOW)] for j in range(3)]
    sums = [outbox(ends[j], keys[j - 1])[0] for j in range(3)]
    last = [machines[0].receive(message, NOW) for message in sums[1:]][-1]
    return boxes[0, 1][0].payload.hex(), sums, mean_of(last), [end[0] for end in ends]


@pytest.mark.parametrize("case", load("sums")["kinds"], ids=lambda case: case["kind"])
def test_shares_partial_sums_and_mean_of_a_group_are_the_known_ones(session, group, case):
    share, sums, mean, spends = run(session, group, case["kind"])

    assert share == case["share_0_to_1"]
    assert [bytes(message.payload).hex() for message in sums] == [known["payload"] for known in case["sums"]]
    assert mean.tobytes().hex() == case["mean"]
    assert [spend.clipped for spend in spends] == load("sums")["clipped"]


@pytest.mark.parametrize("case", load("sums")["kinds"], ids=lambda case: case["kind"])
def test_sums_carry_the_known_signatures(session, group, case):
    sums = run(session, group, case["kind"])[1]

    assert [message.signature.hex() for message in sums] == [known["signature"] for known in case["sums"]]


@pytest.mark.parametrize("case", load("sums")["kinds"], ids=lambda case: case["kind"])
def test_the_total_of_the_known_partial_sums_is_the_known_one(group, case):
    shares = ShareSettings(case["kind"], load("sums")["clip"], load("sums")["max_share_value"]).for_group(3)
    total = shares.empty(len(binary(case["total"])) // 4)
    for known in case["sums"]:
        shares.add(total, 0, binary(known["payload"]))

    assert total.tobytes().hex() == case["total"]


@pytest.mark.parametrize("kind", ["seed", "float"])
def test_the_mean_does_not_depend_on_the_order_in_which_sums_come(group, kind):
    known = next(case for case in load("sums")["kinds"] if case["kind"] == kind)
    keys = tuple(ready.key for ready in group.readys)
    settings = ShareSettings(kind, load("sums")["clip"], load("sums")["max_share_value"])
    total = Total(settings.for_group(3), len(binary(known["total"])) // 4, keys)
    for place in (2, 0, 1):
        total.add(keys[place], 0, binary(known["sums"][place]["payload"]))

    assert total.result().tobytes().hex() == known["mean"]


@pytest.mark.parametrize("case", load("sums")["negative"], ids=lambda case: case["why"])
def test_a_known_sum_signature_covers_nothing_else(session, group, case):
    message = run(session, group, "seed")[1][0]
    value = (bytes(32),) if case["field"] == "pieces" else bytes(32)

    with pytest.raises(RemoteProtocolError, match="bad sum signature"):
        signing.verify(replace(message, **{case["field"]: value}), message.sender)


# -- bases ---------------------------------------------------------------------------------------------


def test_the_digest_of_a_base_is_the_known_one():
    known = load("base")
    parameters = signing.parameters_hash(known["parameters"])
    vector = np.array(known["vector"], dtype="<f4")

    assert parameters.hex() == known["parameters_hash"]
    assert base_digest(parameters, known["generation"], vector).hex() == known["digest"]


def test_another_generation_parameter_set_or_zero_is_another_base():
    known = load("base")
    parameters, vector = binary(known["parameters_hash"]), np.array(known["vector"], dtype="<f4")
    others = [
        base_digest(parameters, known["generation"] + 1, vector),
        base_digest(bytes(32), known["generation"], vector),
        base_digest(parameters, known["generation"], vector + np.float32(0.0)),
    ]

    assert [digest.hex() for digest in others] == [case["digest"] for case in known["negative"]]
    assert known["digest"] not in [case["digest"] for case in known["negative"]]


@pytest.mark.parametrize(("start", "count"), [(1, 4), (6, 1), (0, 2**18 + 1)])
def test_words_from_inside_a_block_or_beyond_a_piece_are_refused_not_wrong(start, count):
    with pytest.raises(LocalProtocolError):
        prg.words(bytes(32), start, count)
