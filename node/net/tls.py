"""TLS 1.3 between nodes, with a fresh certificate at each start that the node's key signs.

There is no certificate authority: a node is identified by its Ed25519 key. At each start it makes a
certificate with a new key pair. An extension holds the node's public key and its signature over the
certificate's key (the scheme of libp2p's TLS handshake,
https://github.com/libp2p/specs/blob/master/tls/tls.md). The client checks that signature, and with it which
node key stands behind the server. So TLS never uses the node key itself, and a stolen certificate is worth
nothing once the process has ended. The server requests no certificate: nodes sign every message and seal
shares to their readers, with or without TLS.
"""

from __future__ import annotations

import datetime
import ssl
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from node.cli.options import option
from node.system.addresses import is_loopback, split_endpoint
from protocol.crypto.node_key import KEY_BYTES, SIGNATURE_BYTES, NodeKey, verify
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Relay
from protocol.swarm.meeting.discovery import OTHER_KEY, UNDER_TLS, WITHOUT_TLS
from protocol.wire.endpoints import key_of
from protocol.wire.ids import Key

VOUCHER = x509.ObjectIdentifier("2.25.293712048361209475120384670518392746501")
"""The extension's OID, in an arc that needs no registration (ITU-T X.667): a random number of 128 bits."""
AUTO, ON, OFF = CHOICES = ("auto", "on", "off")
_LABEL = b"tls"
_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "murmuration node")])
_LIFE = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)


class WrongPeer(ConnectionError):
    """The peer that answers does not hold the expected key."""


def tls_option(besides: str = "") -> Any:
    """Returns the field of --tls, for the options of a node, a tracker or an examination.

    `besides`: what else the default depends on.
    """
    return option(
        "whether links use TLS 1.3; auto: unless the address is reachable from this machine only. All "
        f"peers of a swarm, and its tracker, need the same choice. Default: %(default)s{besides}",
        choices=CHOICES,
        default=AUTO,
    )


def covers(choice: str, endpoint: str) -> bool:
    """Returns whether links to this endpoint use TLS.

    This depends only on the address that is dialled, so both ends of a link come to the same answer. Links to
    a key always do: a relay is between.
    """
    is_open = choice == OFF or (choice == AUTO and is_loopback(endpoint))
    return not is_open or key_of(endpoint) is not None


def url(choice: str, endpoint: str) -> str:
    """Returns the URL of a node or tracker for a browser."""
    return f"{'https' if covers(choice, endpoint) else 'http'}://{endpoint}"


def protection(choice: str, endpoint: str) -> str:
    """Describes the protection of links to a node at `endpoint`."""
    if covers(choice, endpoint):
        return "TLS 1.3; the far end must hold the announced or pinned key"
    if is_loopback(endpoint):
        return "without TLS, on this machine only"
    return (
        "WITHOUT TLS: messages are signed and shares sealed, but anyone who reads the network sees who talks "
        "to whom, the models that nodes fetch, and this node's page"
    )


def by_relay(relays: Iterable[Relay]) -> str:
    """Describes what leads to the members of a swarm by invitation."""
    hosts = " or ".join(split_endpoint(relay.endpoint)[0] for relay in relays)
    return f"by the relay {hosts}, which sees who talks to whom, and nothing else"


def not_met(under_tls: bool) -> str:
    """Returns why a link may have failed that the peer did not refuse, dialled with or without TLS."""
    if under_tls:
        return f"{WITHOUT_TLS}; use the same --tls at both ends"
    return f"{UNDER_TLS}; use the same --tls at both ends"


@dataclass(frozen=True)
class Dialling:
    """The client side of TLS: how to dial, and which node may answer."""

    choice: str
    """One of CHOICES: see `covers`."""
    client: ssl.SSLContext
    keys_at: Callable[[str], frozenset[Key]]
    """Returns the keys that may answer at an endpoint; an empty set allows any node."""

    def dialling(self, endpoint: str) -> ssl.SSLContext | None:
        """Returns the context to dial this endpoint with; None without TLS."""
        return self.client if covers(self.choice, endpoint) else None

    def check(self, endpoint: str, link: ssl.SSLObject | ssl.SSLSocket | None) -> Key | None:
        """Returns the key of the node at the far end of `link`; raises WrongPeer if it may not answer here.

        Returns None if this endpoint is dialled without TLS. `link` is None for a connection without TLS.
        """
        if self.dialling(endpoint) is None:
            return None
        if link is None:
            raise WrongPeer("the far end answers without TLS, although this link requires it")
        node, meant = vouched_for(link.getpeercert(binary_form=True) or b""), key_of(endpoint)
        expected = self.keys_at(endpoint) if meant is None else {meant}
        if expected and node not in expected:
            names = " or ".join(f"{key.hex()[:16]}..." for key in sorted(expected))
            raise WrongPeer(f"{OTHER_KEY}{node.hex()[:16]}..., not {names}")
        return node


@dataclass(frozen=True)
class Tls(Dialling):
    """Both sides of TLS for one node: how it listens and how it dials."""

    endpoint: str
    """Where this node listens, as it announces it to others."""
    server: ssl.SSLContext

    def listening_at(self, bound: str) -> ssl.SSLContext | None:
        """The context to serve with at the address to which the socket is bound; None without TLS.

        Others dial `endpoint`, unless that stands for a key: then relays bring them, and the socket serves
        the page.
        """
        dialled = self.endpoint if key_of(self.endpoint) is None else bound
        return self.server if covers(self.choice, dialled) else None


def make_tls(key: NodeKey, choice: str, endpoint: str, keys_at: Callable[[str], frozenset[Key]]) -> Tls:
    """Makes a node's contexts, with a fresh certificate."""
    return Tls(choice, _client_context(), keys_at, endpoint, _server_context(key))


def make_dialling(choice: str, keys_at: Callable[[str], frozenset[Key]]) -> Dialling:
    """Makes the context of a client, which needs no certificate."""
    return Dialling(choice, _client_context(), keys_at)


def _client_context() -> ssl.SSLContext:
    """Returns a TLS 1.3 context that connects to anyone; `Dialling.check` then identifies the peer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _server_context(key: NodeKey) -> ssl.SSLContext:
    """Returns a TLS 1.3 context with a certificate that `key` signs.

    The certificate's private key is on disk for a moment, with mode 0600.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no node resumes a session, and two tickets are a sixth of a handshake's CPU
    with tempfile.TemporaryDirectory(prefix="murmuration-") as folder:  # mode 0700
        file = Path(folder) / "certificate.pem"
        file.touch(mode=0o600)
        file.write_bytes(b"".join(certificate(key, datetime.datetime.now(datetime.UTC))))
        context.load_cert_chain(file)
    return context


def certificate(key: NodeKey, now: datetime.datetime) -> tuple[bytes, bytes]:
    """Makes a self-signed certificate that `key` vouches for, and its private key (ECDSA P-256), in PEM."""
    private = ec.generate_private_key(ec.SECP256R1())
    voucher = key.public + key.sign(_LABEL, _spki(private.public_key()))
    built = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.UnrecognizedExtension(VOUCHER, voucher), critical=False)
        .sign(private, SHA256())
    )
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return built.public_bytes(Encoding.PEM), pem


def _spki(public: ec.EllipticCurvePublicKey) -> bytes:
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def vouched_for(der: bytes) -> Key:
    """Returns the node key that vouches for a certificate (DER); raises WrongPeer if none does.

    The TLS handshake has shown that the far end holds the certificate's private key.
    """
    try:
        shown = x509.load_der_x509_certificate(der)
        public = shown.public_key()
        voucher = shown.extensions.get_extension_for_oid(VOUCHER).value
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(
            voucher, x509.UnrecognizedExtension
        ):
            raise WrongPeer("its certificate is of another kind")
        if len(voucher.value) != KEY_BYTES + SIGNATURE_BYTES:
            raise WrongPeer("its certificate is vouched for in another way")
        node, signature = voucher.value[:KEY_BYTES], voucher.value[KEY_BYTES:]
        verify(node, _LABEL, _spki(public), signature)
    except (ValueError, x509.ExtensionNotFound, InvalidSignature, RemoteProtocolError) as error:
        raise WrongPeer("no node key vouches for its certificate") from error
    return node
