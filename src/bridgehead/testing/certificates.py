"""Certificates for tests: an authority of their own, a server on loopback, a client."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Certificates(msgspec.Struct, frozen=True):
    """Paths of PEM files; those of server and client hold key and certificate."""

    ca: Path
    server: Path
    client: Path


def make_certificates(folder: Path) -> Certificates:
    """New ones, valid for a day, for ``127.0.0.1`` and ``localhost``; the client's name is ``bridgehead``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("authority of tests")
    authority = _signed(name, name, key.public_key(), key, [(x509.BasicConstraints(ca=True, path_length=0), True)])
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    for file, subject, extensions in (("server.pem", "localhost", [(names, False)]), ("client.pem", "bridgehead", [])):
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(_name(subject), name, own.public_key(), key, extensions)
        plain = serialization.NoEncryption()
        text = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        (folder / file).write_bytes(text + certificate.public_bytes(serialization.Encoding.PEM))
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    key: ec.EllipticCurvePrivateKey,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _DAY)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())
