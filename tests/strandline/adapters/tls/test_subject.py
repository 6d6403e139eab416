"""The subject of a certificate, and its principal (docs/correctness.md, X10)."""

from __future__ import annotations

import datetime
import re
import ssl
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from strandline.adapters.rpc.grpc_listener import CERTIFICATE
from strandline.adapters.tls.distinguished_name import SHORT_NAMES, subject_of
from strandline.adapters.tls.subject import PRINCIPALS_KEPT_MAX, CertificatePrincipals
from strandline.cli.shell.clock import now
from strandline.errors import AuthenticationFailed, SettingsError
from strandline.local.ports import LOOPBACK
from strandline.security.principal import Principal

Attribute = x509.NameAttribute[Any]


def attribute(number: str, value: str, kind: _ASN1Type = _ASN1Type.UTF8String) -> Attribute:
    with warnings.catch_warnings(action="ignore"):  # an empty name
        return Attribute(x509.ObjectIdentifier(number), value, kind, _validate=False)


CN, UNKNOWN = "2.5.4.3", "1.3.6.1.4.1.99999.1"
SUBJECTS: dict[str, Sequence[Sequence[Attribute]]] = {
    "CN=alice": [[attribute(CN, "alice")]],
    "emailAddress=ops@example,CN=broker-1+serialNumber=5,UID=a17,DC=example,OU=\\ x=y,OU=\\#1\\ ,"
    'O=Tides\\, Inc. \\+ \\"Sons\\"\\; \\<a\\\\b\\>,street=1 Way,L=Leipzig,ST=Saxony,C=DE': [
        [Attribute(NameOID.COUNTRY_NAME, "DE")],
        [Attribute(NameOID.STATE_OR_PROVINCE_NAME, "Saxony")],
        [Attribute(NameOID.LOCALITY_NAME, "Leipzig")],
        [Attribute(NameOID.STREET_ADDRESS, "1 Way")],
        [Attribute(NameOID.ORGANIZATION_NAME, 'Tides, Inc. + "Sons"; <a\\b>')],
        [Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "#1 ")],
        [Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, " x=y")],
        [Attribute(NameOID.DOMAIN_COMPONENT, "example")],
        [Attribute(NameOID.USER_ID, "a17")],
        [Attribute(NameOID.COMMON_NAME, "broker-1"), Attribute(NameOID.SERIAL_NUMBER, "5")],
        [Attribute(NameOID.EMAIL_ADDRESS, "ops@example")],
    ],
    "CN=Äpfel \u2603": [[attribute(CN, "Äpfel \u2603")]],
    "CN=\\\\C3\\\\84 is no character": [[attribute(CN, "\\C3\\84 is no character")]],
    "GN=Ada,SN=Lovelace": [
        [Attribute(NameOID.SURNAME, "Lovelace")],
        [Attribute(NameOID.GIVEN_NAME, "Ada")],
    ],
    "title=Dr,initials=A,generationQualifier=III,pseudonym=p,postalCode=04103": [
        [Attribute(NameOID.POSTAL_CODE, "04103")],
        [Attribute(NameOID.PSEUDONYM, "p")],
        [Attribute(NameOID.GENERATION_QUALIFIER, "III")],
        [Attribute(NameOID.INITIALS, "A")],
        [Attribute(NameOID.TITLE, "Dr")],
    ],
    f"CN=x,{UNKNOWN}=#0C026162": [[attribute(UNKNOWN, "ab")], [attribute(CN, "x")]],
    f"{UNKNOWN}=#0C0162+CN=x": [[attribute(CN, "x"), attribute(UNKNOWN, "b")]],
    "CN=\\ ": [[attribute(CN, " ")]],
    "CN=\\ \\ ": [[attribute(CN, "  ")]],
    "CN=\\#": [[attribute(CN, "#")]],
    "O=Tides,CN=": [[attribute(CN, "")], [Attribute(NameOID.ORGANIZATION_NAME, "Tides")]],
    "CN=bmp \u00e9": [[attribute(CN, "bmp \u00e9", _ASN1Type.BMPString)]],
    "CN=wide \U0001f600": [[attribute(CN, "wide \U0001f600", _ASN1Type.UniversalString)]],
    "CN=a=b": [[attribute(CN, "a=b", _ASN1Type.PrintableString)]],
}
"""By what is written for them."""


def self_signed(folder: Path, subject: Sequence[Sequence[Attribute]]) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.RelativeDistinguishedName(part) for part in subject])
    issued = now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(issued - datetime.timedelta(days=1))
        .not_valid_after(issued + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    certfile, keyfile = folder / "cert.pem", folder / "key.pem"
    certfile.write_bytes(certificate.public_bytes(pem))
    keyfile.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    return certfile, keyfile


async def by_grpc(certfile: Path, keyfile: Path, shown: str = CERTIFICATE) -> bytes:
    """What gRPC gives a server of its client's certificate."""
    pair = keyfile.read_bytes(), certfile.read_bytes()

    async def subject(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return next(iter(context.auth_context().get(shown, ())), b"none")

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(subject)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("subject", {"Get": handler}),))
    credentials = grpc.ssl_server_credentials([pair], pair[1], require_client_auth=True)
    port = server.add_secure_port(f"{LOOPBACK}:0", credentials)
    await server.start()
    try:
        client = grpc.ssl_channel_credentials(pair[1], *pair)
        options = (("grpc.ssl_target_name_override", "localhost"),)
        async with grpc.aio.secure_channel(f"{LOOPBACK}:{port}", client, options=options) as channel:
            ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/subject/Get")
            return await ask(b"")
    finally:
        await server.stop(None)


def by_python(certfile: Path, keyfile: Path) -> bytes:
    """The certificate of its client that Python gives a server."""
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = ssl.CERT_REQUIRED
    for context in (client, server):
        context.load_verify_locations(certfile)
        context.load_cert_chain(certfile, keyfile)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_client = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    at_server = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for end in (at_client, at_server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = at_server.getpeercert(binary_form=True)
    assert shown is not None
    return shown


_HEXADECIMAL = re.compile(rb"(?:\\[0-9A-F]{2})+|\\.", re.DOTALL)


async def named_by_grpc(certfile: Path, keyfile: Path) -> str:
    """The subject as gRPC writes it, with the characters for which it writes digits."""

    def characters(found: re.Match[bytes]) -> bytes:
        return found[0] if len(found[0]) == 2 else bytes.fromhex(found[0].decode().replace("\\", ""))

    return _HEXADECIMAL.sub(characters, await by_grpc(certfile, keyfile, "x509_subject")).decode()


@pytest.mark.parametrize(("text", "subject"), SUBJECTS.items())
async def test_both_kinds_of_listener_find_the_same_subject(
    tmp_path: Path, text: str, subject: Sequence[Sequence[Attribute]]
) -> None:
    """CORRECTNESS X10: one certificate is one principal, by gRPC and by Kafka's protocol. It is the one that
    gRPC itself writes."""
    pair = self_signed(tmp_path, subject)
    principals = CertificatePrincipals("DEFAULT")
    assert principals.of(by_python(*pair)) == principals.of(await by_grpc(*pair)) == Principal(text)
    assert subject_of(by_python(*pair)) == await named_by_grpc(*pair)


async def test_short_names_are_those_of_grpc(tmp_path: Path) -> None:
    """CORRECTNESS X10: principals over gRPC stay what they were."""
    subject = [[attribute(number, "DE")] for number in SHORT_NAMES]
    pair = self_signed(tmp_path, subject)
    assert subject_of(by_python(*pair)) == await named_by_grpc(*pair)


def certificate_of(name: str, folder: Path) -> bytes:
    certfile, _ = self_signed(folder, [[attribute(CN, name)]])
    return certfile.read_bytes()


def test_the_rules_make_the_principal(tmp_path: Path) -> None:
    alice = certificate_of("Alice", tmp_path)
    tides, _ = self_signed(tmp_path, [[attribute("2.5.4.10", "Tides")]])
    principals = CertificatePrincipals(r"RULE:^CN=(.*?)(,.*)?$/$1/L")
    assert principals.of(alice) == Principal("alice")
    assert principals.of(alice) is principals.of(alice)
    with pytest.raises(AuthenticationFailed):
        principals.of(tides.read_bytes())


@pytest.mark.parametrize("shown", [b"", b"\x30\x00", b"-----BEGIN CERTIFICATE-----\n", b"-\xff"])
def test_what_is_no_certificate_is_refused(shown: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        CertificatePrincipals("DEFAULT").of(shown)


def test_the_principals_that_are_remembered_are_bounded(tmp_path: Path) -> None:
    principals = CertificatePrincipals("DEFAULT")
    for number in range(PRINCIPALS_KEPT_MAX):
        principals._known[bytes([number % 256, number // 256])] = Principal("x")
    assert principals.of(certificate_of("y", tmp_path)) == Principal("CN=y")
    assert len(principals._known) <= PRINCIPALS_KEPT_MAX


def test_rules_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(SettingsError, match="setting ssl_principal_mapping_rules"):
        CertificatePrincipals("RULE:(/x/")
