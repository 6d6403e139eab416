"""A certificate authority for development and tests: it issues certificates, and keeps no list of them.

It needs the extra `security`. Keys are on the curve P-256, in PKCS#8, as ZooKeeper and all clients want it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from strandline.errors import SettingsError

AUTHORITY: Final = "ca"
"""The name of the authority's own files in a folder."""
AUTHORITY_DAYS: Final = 3_650
EARLIER: Final = timedelta(minutes=5)
"""Certificates are valid from a little before now, for peers whose clocks are behind."""


class Authority:
    """An authority whose files lie in a folder: `ca.pem`, `ca.key`."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.folder = folder
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, folder: Path, now: datetime, *, name: str = "strandline development") -> Authority:
        """A new one. Raises SettingsError if the folder has one already."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if certificate_path(folder, AUTHORITY).exists():
            raise SettingsError(f"{folder} has an authority already, which issued certificates")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        builder = (
            _builder(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        certificate = builder.sign(key, hashes.SHA256())
        _write(folder, AUTHORITY, [certificate], key)
        return cls(folder, certificate, key)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """The one in a folder. Raises SettingsError."""
        try:
            certificate = x509.load_pem_x509_certificate(certificate_path(folder, AUTHORITY).read_bytes())
            key = serialization.load_pem_private_key(key_path(folder, AUTHORITY).read_bytes(), None)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{folder} has no authority ({error}): `strandline security ca create` makes one"
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SettingsError(
                f"{key_path(folder, AUTHORITY)} was not made by `strandline security ca create`"
            )
        return cls(folder, certificate, key)

    def issue(self, name: str, now: datetime, *, days: int, hosts: Sequence[str] = ()) -> None:
        """A certificate for CN=`name`, into `name.pem` and `name.key`; earlier ones are replaced.

        With `hosts`, names or addresses, it is for a server too; a server that is also a client needs one.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(_name(name), self._certificate.subject, key.public_key(), now, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        _write(self.folder, name, [builder.sign(self._key, hashes.SHA256())], key)


def certificate_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.pem"


def key_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.key"


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise SettingsError(f"{common_name!r} cannot be the name in a certificate: {error}") from error


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    folder: Path, name: str, chain: Sequence[x509.Certificate], key: ec.EllipticCurvePrivateKey
) -> None:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _replace(key_path(folder, name), private, 0o600)
    _replace(certificate_path(folder, name), b"".join(each.public_bytes(pem) for each in chain), 0o644)


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Replaces a file at once: a process may be reading it."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    os.replace(draft, path)
