"""An endpoint is exactly a host and a port, in one form; the codec accepts no other text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.errors import RemoteProtocolError
from protocol.wire import codec
from protocol.wire.endpoints import canonical, is_canonical, is_loopback, is_wildcard, key_of, of_key
from protocol.wire.messages import Announce
from tests.samples import SAMPLES

LONGEST = ".".join(["a" * 63] * 3 + ["b" * 61])
ONE_FORM = (
    *("127.0.0.1:9001", "10.0.0.1:1", "255.255.255.255:65535", "localhost:80", "a:1", "host.example:443"),
    *("xn--bcher-kva.example:9001", "a-b.c-d:9001", "1a.2b:9001", "[::1]:9001", "[fe80::1]:9001"),
    *("[2001:db8::ff00:42:8329]:9001", f"{LONGEST}:65535"),
)
OTHER_FORMS = {
    "Host.Example:9001": "host.example:9001",
    "host.example.:9001": "host.example:9001",
    "host:09001": "host:9001",
    "[2001:DB8::1]:9001": "[2001:db8::1]:9001",
    "[0:0:0:0:0:0:0:1]:9001": "[::1]:9001",
}
NONE = (
    *(
        "",
        ":",
        "host",
        "host:",
        ":9001",
        "host:0",
        "host:65536",
        "host:99999",
        "host:-1",
        "host:+1",
        "host:1a",
    ),
    *("host:9001/", "host:9001/admin/x?y=", "host:9001?x=", "host:9001#", "host/x:9001", "host?x=:9001"),
    *(
        "host#:9001",
        "user@host:9001",
        "user:word@host:9001",
        "http://host:9001",
        "//host:9001",
        "host\\x:9001",
    ),
    *(" host:9001", "host:9001 ", "ho st:9001", "host :9001", "host:9001\n", "host\n:9001", "host:90\t01"),
    *("ho\0st:9001", "host:9001\0", "host:9001\r\nX: y", "ho%73t:9001", "h\xf6st:9001", "\u212aelvin:9001"),
    *(
        "host:\uff11",
        "\uff11.2.3.4:9001",
        "host:\u0661",
        "-a:9001",
        "a-:9001",
        "a..b:9001",
        ".a:9001",
        "a_b:9001",
    ),
    *("..:9001", ".:9001", f"{'a' * 64}:9001", f"{LONGEST}c:9001", "x" * 300 + ":1", "host:0000009001"),
    *(
        "1.2.3:9001",
        "1.2.3.4.5:9001",
        "1.2.3.256:9001",
        "01.2.3.4:9001",
        "2130706433:9001",
        "0x7f000001:9001",
    ),
    *("1.2.3.0x4:9001", "0x:9001", "a.0x0:9001", "a.1:9001", "0:9001", "0.0.0.0:9001", "[::]:9001"),
    *("[0::0]:9001", "::1:9001", "[::1:9001", "::1]:9001", "[[::1]]:9001", "[1.2.3.4]:9001", "[host]:9001"),
    *("[fe80::1%eth0]:9001", "[::ffff:1.2.3.4]:9001", "[::ffff:0:0]:9001", "[]:9001", "[::1]9001", "[::1]:"),
)
ANNOUNCED = [message for message in SAMPLES if isinstance(getattr(message, "announce", 0), Announce)]


def saying(message, endpoint):
    """Makes the frame of a message that names this endpoint; encoding checks nothing."""
    return codec.encode(replace(message, announce=replace(message.announce, endpoint=endpoint))).join()


@pytest.mark.parametrize("endpoint", ONE_FORM)
def test_the_one_form(endpoint):
    assert canonical(endpoint) == endpoint
    assert is_canonical(endpoint)


@pytest.mark.parametrize(("written", "endpoint"), OTHER_FORMS.items())
def test_what_people_write_is_brought_into_it(written, endpoint):
    assert canonical(written) == endpoint
    assert not is_canonical(written)


@pytest.mark.parametrize("written", NONE)
def test_what_is_no_endpoint(written):
    assert canonical(written) is None
    assert not is_canonical(written)


def test_any_port_is_for_who_listens():
    assert canonical("host:0", any_port=True) == "host:0"
    assert canonical("host:65536", any_port=True) is None


@pytest.mark.parametrize("message", ANNOUNCED, ids=lambda message: type(message).__name__)
def test_the_codec_takes_the_one_form_alone(message):
    for endpoint in ONE_FORM:
        frame = saying(message, endpoint)
        assert codec.encode(codec.decode(frame)).join() == frame
    for endpoint in (*OTHER_FORMS, *NONE):
        with pytest.raises(RemoteProtocolError, match="an endpoint that is not HOST:PORT in its one form"):
            codec.decode(saying(message, endpoint))


def test_messages_that_name_endpoints_are_all_here():
    assert {type(message).__name__ for message in ANNOUNCED} == {"Hello", "Ready"}


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [("127.8.9.1:1", True), ("[::1]:1", True), ("localhost:1", True), ("a:1", False), ("10.0.0.1:1", False)],
)
def test_what_is_this_machine_alone(endpoint, local):
    assert is_loopback(endpoint) is local


def test_wildcards():
    assert [is_wildcard(host) for host in ("0.0.0.0", "::", "0::0", "127.0.0.1", "host")] == [
        *(True, True, True),
        *(False, False),
    ]


def test_the_endpoint_of_a_key_is_canonical_and_gives_the_key_back():
    key = bytes(range(32))
    assert canonical(of_key(key)) == of_key(key)
    assert key_of(of_key(key)) == key


@pytest.mark.parametrize(
    "endpoint",
    [
        "127.0.0.1:443",
        "host.example:443",
        "aaaa.alt:443",
        of_key(bytes(32)).upper(),
        of_key(bytes(32)).replace(":443", ":444"),
        of_key(bytes(32)).replace("a.alt", "b.alt"),  # the same bits beside others that base32 ignores
        "1" * 52 + ".alt:443",
    ],
)
def test_other_endpoints_stand_for_no_key(endpoint):
    assert key_of(endpoint) is None
