"""TLS between nodes: whose certificate is accepted, where TLS is used, and what a stranger learns."""

import datetime
import ssl
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from node.net.outgoing.bulk_client import BulkClient, Pass
from node.net.tls import _NAME, VOUCHER, WrongPeer, certificate, make_dialling, protection, url, vouched_for
from protocol.wire import codec
from protocol.wire.endpoints import of_key
from protocol.wire.messages import Accepted
from tests.unit.node.links import BULK, ONE, OTHER, End, node_state, tls_of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def with_voucher(value: bytes | None, private=None) -> bytes:
    """Makes a certificate that is valid except for its extension."""
    private = private or ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder().subject_name(_NAME).issuer_name(_NAME).serial_number(7)
    builder = builder.public_key(private.public_key()).not_valid_before(NOW)
    builder = builder.not_valid_after(NOW + datetime.timedelta(days=1))
    if value is not None:
        builder = builder.add_extension(x509.UnrecognizedExtension(VOUCHER, value), critical=False)
    return builder.sign(private, SHA256()).public_bytes(Encoding.DER)


def voucher_of(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).extensions.get_extension_for_oid(VOUCHER).value.value


def test_a_node_s_certificate_names_its_key_is_fresh_each_time_and_nothing_older_than_tls_1_3_is_spoken():
    first, second = certificate(ONE, NOW), certificate(ONE, NOW)
    assert vouched_for(der(first[0])) == vouched_for(der(second[0])) == ONE.public
    assert first != second
    assert protection("off", "10.0.0.7:1").startswith("WITHOUT TLS")
    assert protection("off", "127.0.0.1:1") == "without TLS, on this machine only"
    tls = tls_of(ONE)
    assert {tls.server.minimum_version, tls.client.minimum_version} == {ssl.TLSVersion.TLSv1_3}


VOUCHER_OF_ONE = voucher_of(certificate(ONE, NOW)[0])
"""It vouches for another certificate's key."""


ELSEWISE = [with_voucher(value) for value in (b"", VOUCHER_OF_ONE[:-1])]
FOR_NOBODY = [
    *map(with_voucher, (None, bytes(96), VOUCHER_OF_ONE, OTHER.public + VOUCHER_OF_ONE[32:])),
    *(b"", b"0" * 40, bytes(10_000)),
]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        *((made, "its certificate is vouched for in another way") for made in ELSEWISE),
        *((made, "no node key vouches") for made in FOR_NOBODY),
    ],
    ids=["empty", "cut", "none", "zeros", "of another", "stolen", "nothing", "garbage", "much garbage"],
)
def test_a_certificate_that_no_key_vouches_for_is_nobody_s(made, why):
    with pytest.raises(WrongPeer, match=why):
        vouched_for(made)


@pytest.mark.parametrize(
    ("choice", "endpoint", "covered"),
    [
        ("auto", "127.0.0.1:1", False),
        ("auto", "localhost:1", False),
        ("auto", "[::1]:1", False),
        ("auto", "10.0.0.7:1", True),
        ("auto", "ward-7.example:1", True),
        ("on", "127.0.0.1:1", True),
        ("off", "10.0.0.7:1", False),
        ("auto", of_key(OTHER.public), True),
        ("off", of_key(OTHER.public), True),
    ],
)
def test_it_follows_from_the_address_whether_a_link_is_under_tls(choice, endpoint, covered):
    tls = tls_of(ONE, choice, endpoint)
    assert url(choice, endpoint) == f"{'https' if covered else 'http'}://{endpoint}"
    assert ("TLS 1.3" in protection(choice, endpoint)) is covered
    assert (tls.dialling(endpoint) is not None) is (tls.listening_at(endpoint) is not None) is covered


@pytest.mark.parametrize(
    ("choice", "bound", "covered"),
    [
        ("auto", "127.0.0.1:5", False),
        ("auto", "10.0.0.7:5", True),
        ("on", "127.0.0.1:5", True),
        ("off", "10.0.0.7:5", False),
    ],
)
def test_a_node_that_is_reached_by_its_key_serves_its_page_as_its_own_address_says(choice, bound, covered):
    tls = tls_of(ONE, choice, of_key(ONE.public))
    assert (tls.listening_at(bound) is not None) is covered


def test_only_the_key_that_was_dialled_may_answer_at_its_endpoint():
    """Whatever was announced or pinned: a relay may lead elsewhere."""

    class Link:
        """The far end's part of a handshake."""

        def getpeercert(self, binary_form):
            assert binary_form
            return der(certificate(OTHER, NOW)[0])

    tls = make_dialling("auto", lambda _: frozenset({OTHER.public}))
    assert tls.check(of_key(OTHER.public), Link()) == OTHER.public
    with pytest.raises(WrongPeer, match=f"holds the key {OTHER.public.hex()[:16]}"):
        tls.check(of_key(ONE.public), Link())
    with pytest.raises(WrongPeer, match="without TLS"):
        tls.check(of_key(OTHER.public), None)


def two(*choices):
    return node_state(*(End(key, choice) for key, choice in zip((ONE, OTHER), choices, strict=True)))


@pytest.mark.parametrize("expected", [frozenset(), frozenset({OTHER.public}), {ONE.public, OTHER.public}])
async def test_small_and_bulk_go_through(expected):
    async with two("on", "on") as (here, there):
        here.expected = frozenset(expected)
        here.transport.send(there.endpoint, (Accepted(b"n" * 16),))
        assert await there.take(1) == [Accepted(b"n" * 16)]
        sent = [BULK, replace(BULK, payload=b"1" * 400_000)]
        here.transport.send(there.endpoint, sent)
        assert await there.take(2) == sent


async def test_who_holds_another_key_than_expected_hears_nothing():
    async with two("on", "on") as (here, there):
        here.expected = frozenset({ONE.public})
        here.transport.send(there.endpoint, (Accepted(b"n" * 16),))
        endpoint, why = await here.lost.get()
        assert endpoint == there.endpoint
        assert (
            why == f"the far end holds the key {OTHER.public.hex()[:16]}..., not {ONE.public.hex()[:16]}..."
        )
        assert there.got.empty()


async def test_bulk_has_a_connection_of_its_own_which_is_checked_too():
    async with two("on", "on") as (here, there):
        here.expected = frozenset({ONE.public})
        client = BulkClient(there.endpoint, 5.0, 5.0, here.transport.tls)
        for _ in range(2):  # what was refused once is not there for the next one
            with pytest.raises(WrongPeer, match=f"holds the key {OTHER.public.hex()[:16]}"):
                await client.post(codec.encode(BULK), Pass(OTHER.public, bytes(32)))
        here.expected = frozenset()
        with pytest.raises(WrongPeer, match="under another key than the link"):
            await client.post(codec.encode(BULK), Pass(ONE.public, bytes(32)))
        client.close()
        assert there.got.empty()


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (("on", "off"), "the program there does not speak TLS 1.3"),
        (("off", "on"), "the program there does not answer without TLS"),
    ],
)
async def test_with_and_without_tls_do_not_meet_and_it_is_said_why(choices, told):
    async with two(*choices) as (here, there):
        here.transport.send(there.endpoint, (Accepted(b"n" * 16),))
        assert await here.lost.get() == (there.endpoint, f"{told}; use the same --tls at both ends")
        assert there.got.empty()
