"""The known answers are what the reference yields, and what the product yields."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.aggregation.additive.machine import Additive
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.participant import Participant, SessionTimeouts
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
        assert json.loads(json.dumps(made[name])) == load(name.removesuffix(".json")), name


@pytest.mark.parametrize(
    "case", load("masks")["cases"], ids=lambda case: f"{case['seed'][:4]}-{case['start']}"
)
def test_mask_words_are_the_known_ones_from_any_offset(case):
    ahead = case["start"] % 4
    words = prg.words(binary(case["seed"]), case["start"] - ahead, len(case["words"]) + ahead)
    assert words[ahead:].tolist() == case["words"]


def test_other_seeds_and_places_give_no_word_of_the_known_ones_and_no_place_inside_a_block_is_wrong():
    for case in load("masks")["negative"]:
        words = prg.words(binary(case["seed"]), case["start"], len(case["not"])).tolist()
        assert not set(words) & set(case["not"]), case["why"]
    for start, count in ((1, 4), (6, 1), (0, 2**18 + 1)):
        with pytest.raises(LocalProtocolError):
            prg.words(bytes(32), start, count)


ROUNDING = load("rounding")


@pytest.mark.parametrize("case", ROUNDING["cases"], ids=lambda case: f"{case['members']}-{case['bound']}")
def test_stochastic_rounding_with_a_known_seed_gives_the_known_words(case):
    point, vector = FixedPoint(case["bound"], case["members"]), np.array(case["vector"], dtype="<f4")
    words, clipped = point.encode(vector, binary(ROUNDING["seed"]))
    assert (words.tolist(), clipped) == (case["words"], case["clipped"])
    for negative in ROUNDING["negative"]:
        with pytest.raises(NotFiniteError):
            point.encode(np.array([0.0, float(negative["value"])], dtype="<f4"), bytes(32))


def test_session_ids_are_the_known_ones_in_any_order_of_the_readys(session, group):
    contributors = signing.contributors_hash(tuple(ready.key for ready in group.readys))
    assert contributors.hex() == session["contributors"]
    assert signing.session_id(group).hex() == session["sid"]
    assert signing.session_id(replace(group, readys=group.readys[::-1])).hex() == session["sid"]
    blank = replace(group.readys[2], nonce=bytes(16))
    changes: list[dict[str, Any]] = [{"attempt": group.attempt + 1}, {"readys": group.readys[:2]}]
    changes += [{"readys": (*group.readys[:2], blank)}, {"excused": ()}, {"electors": group.electors[:2]}]
    for change, case in zip(changes, session["negative"], strict=True):
        assert signing.session_id(replace(group, **change)).hex() == case["sid"] != session["sid"], case[
            "why"
        ]


def test_a_later_step_of_a_run_has_the_known_session_id(session, group):
    generation, digest, members, sid, anchor = session["later"]["base"]
    base = Base(generation, binary(digest), members, binary(sid), anchor)
    later = replace(group, on=(base,))
    assert (later.step, later.base, later.run) == (2, base, group)
    assert signing.session_id(later).hex() == session["later"]["sid"]
    signing.verify(later, group.coordinator)


def test_known_signatures_of_announcements_readys_and_groups_are_good_and_made_again(session, group):
    signing.verify(group, group.coordinator)
    assert signing.sign(group, keys_of(session)[0]) == group
    for key, ready in zip(keys_of(session), group.readys, strict=True):
        for record in (ready.announce, ready):
            signing.verify(record, ready.key)
            assert signing.sign(record, key) == record


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
    other = {"weak": not ready.weak, "gone": ()}.get(field, bytes(32))
    other = bytes(16) if field == "nonce" else other
    with pytest.raises(RemoteProtocolError, match="bad ready signature"):
        signing.verify(replace(ready, **{field: other}), ready.key)


SEALING = load("sealing")


@pytest.mark.parametrize("case", SEALING["cases"], ids=lambda case: f"piece {case['index']}")
def test_a_sealed_share_is_the_known_one_and_opens_unless_anything_is_changed(session, group, case):
    near, far = (Ephemeral(binary(secret)) for secret in session["ephemeral_secrets"][:2])
    sid, sender, recipient = binary(session["sid"]), group.readys[0].key, group.readys[1].key
    index, sealed = case["index"], binary(case["sealed"])

    def header(sid: bytes, sender: bytes, recipient: bytes, index: int) -> bytes:
        return b"share" + sid + sender + recipient + index.to_bytes(4, "big")

    def opened(sealed: bytes, *ends: Any, more: bytes = b"") -> bytes:
        return far.channel(near.public, *ends[:3]).open(ends[3], header(*ends) + more, sealed)

    channel = near.channel(far.public, sid, sender, recipient)
    right = header(sid, sender, recipient, index)
    assert channel.seal(index, right, binary(case["plain"])).hex() == case["sealed"]
    assert opened(sealed, sid, sender, recipient, index).hex() == case["plain"]
    none, flipped = bytes(32), bytes([sealed[0] ^ 1]) + sealed[1:]
    changed = {
        "sid": lambda: opened(sealed, none, sender, recipient, index),
        "sender": lambda: opened(sealed, sid, none, recipient, index),
        "recipient": lambda: opened(sealed, sid, sender, none, index),
        "direction": lambda: opened(sealed, sid, recipient, sender, index),
        "index": lambda: opened(sealed, sid, sender, recipient, index + 1),
        "header": lambda: opened(sealed, sid, sender, recipient, index, more=b"!"),
        "first bit": lambda: opened(flipped, sid, sender, recipient, index),
        "last bit": lambda: opened(sealed[:-1] + bytes([sealed[-1] ^ 128]), sid, sender, recipient, index),
        "cut off": lambda: opened(sealed[:-1], sid, sender, recipient, index),
    }
    assert list(changed) == [negative["changed"] for negative in SEALING["negative"]]
    for call in changed.values():
        with pytest.raises(RemoteProtocolError, match="does not open"):
            call()


SUMS = load("sums")


def run(session: Any, group: Group, kind: str) -> tuple[str, list[Sum], Any, list[Any]]:
    """A whole session over the known group: (first share, the sums, the mean, the spends)."""
    settings = ShareSettings(kind, SUMS["clip"], SUMS["max_share_value"])
    vectors = [np.array(line, dtype="<f4") for line in SUMS["vectors"]]
    participants = [
        Participant(group, 1, key, Ephemeral(binary(secret)), len(vectors[0]), SessionTimeouts(15.0, 15.0))
        for key, secret in zip(keys_of(session), session["ephemeral_secrets"], strict=True)
    ]
    machines = [Additive(participant, settings.for_group(3)) for participant in participants]
    rands = [binary(rand) for rand in SUMS["rands"]]
    starts = [m.start(x, rand, NOW) for m, x, rand in zip(machines, vectors, rands, strict=True)]
    keys = machines[0].members
    boxes = {(i, j): outbox(starts[i], keys[j]) for i in range(3) for j in range(3)}
    ends = [[a for i in range(3) for s in boxes[i, j] for a in machines[j].receive(s, NOW)] for j in range(3)]
    sums = [outbox(ends[j], keys[j - 1])[0] for j in range(3)]
    last = [machines[0].receive(message, NOW) for message in sums[1:]][-1]
    return boxes[0, 1][0].payload.hex(), sums, mean_of(last), [end[0] for end in ends]


@pytest.mark.parametrize("case", SUMS["kinds"], ids=lambda case: case["kind"])
def test_shares_partial_sums_signatures_and_mean_of_a_group_are_the_known_ones(session, group, case):
    share, sums, mean, spends = run(session, group, case["kind"])
    assert share == case["share_0_to_1"]
    signed = [{"payload": bytes(one.payload).hex(), "signature": one.signature.hex()} for one in sums]
    assert signed == case["sums"]
    assert mean.tobytes().hex() == case["mean"]
    assert [spend.clipped for spend in spends] == SUMS["clipped"]
    shares = ShareSettings(case["kind"], SUMS["clip"], SUMS["max_share_value"]).for_group(3)
    total = shares.empty(len(binary(case["total"])) // 4)
    for known in case["sums"]:
        shares.add(total, 0, binary(known["payload"]))
    assert total.tobytes().hex() == case["total"]


def test_a_known_sum_signature_covers_nothing_else(session, group):
    message = run(session, group, "seed")[1][0]
    for case in SUMS["negative"]:
        value = (bytes(32),) if case["field"] == "pieces" else bytes(32)
        with pytest.raises(RemoteProtocolError, match="bad sum signature"):
            signing.verify(replace(message, **{case["field"]: value}), message.sender)


def test_the_digest_of_a_base_is_the_known_one_and_of_another_another():
    known = load("base")
    parameters, generation = signing.parameters_hash(known["parameters"]), known["generation"]
    vector = np.array(known["vector"], dtype="<f4")
    assert parameters.hex() == known["parameters_hash"]
    assert base_digest(parameters, generation, vector).hex() == known["digest"]
    zero = vector + np.float32(0.0)
    others = [
        (parameters, generation + 1, vector),
        (bytes(32), generation, vector),
        (parameters, generation, zero),
    ]
    for other, case in zip(others, known["negative"], strict=True):
        assert base_digest(*other).hex() == case["digest"] != known["digest"], case["why"]
