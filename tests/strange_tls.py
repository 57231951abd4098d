"""TLS of programs that are no node: a server that no key vouches for, a client that takes any certificate."""

from __future__ import annotations

import datetime
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def strange_server(called: str = "proxy.example") -> ssl.SSLContext:
    """Makes the context of a server that is no node."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, called)])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(7)
    built = built.public_key(private.public_key()).not_valid_before(now - datetime.timedelta(days=1))
    signed = built.not_valid_after(now + datetime.timedelta(days=1)).sign(private, SHA256())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.pem"
        file.write_bytes(
            signed.public_bytes(Encoding.PEM)
            + private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        context.load_cert_chain(file)
    return context


def trusting_client() -> ssl.SSLContext:
    """Makes the context of a client that connects to anyone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
