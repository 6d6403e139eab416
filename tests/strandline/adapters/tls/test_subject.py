"""The subject of a certificate, and its principal (docs/correctness.md, X10)."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from strandline.adapters.rpc.grpc_listener import SUBJECT
from strandline.adapters.tls.subject import (
    SUBJECTS_KEPT_MAX,
    CertificatePrincipals,
    subject_text,
    text_of_grpc,
)
from strandline.errors import AuthenticationFailed, SettingsError
from strandline.local.ports import LOOPBACK
from strandline.security.principal import Principal

Attribute = x509.NameAttribute[Any]
SUBJECTS = [
    [[Attribute(NameOID.COMMON_NAME, "alice")]],
    [
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
    [[Attribute(NameOID.COMMON_NAME, "Äpfel \u2603")]],
    [[Attribute(NameOID.COMMON_NAME, "\\C3\\84 is no character")]],
]


def self_signed(folder: Path, subject: Sequence[Sequence[Attribute]]) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.RelativeDistinguishedName(part) for part in subject])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    certfile, keyfile = folder / "cert.pem", folder / "key.pem"
    certfile.write_bytes(certificate.public_bytes(pem))
    keyfile.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    return certfile, keyfile


async def by_grpc(certfile: Path, keyfile: Path) -> str:
    """The subject that gRPC gives a server."""
    pair = keyfile.read_bytes(), certfile.read_bytes()

    async def subject(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return next(iter(context.auth_context().get(SUBJECT, ())), b"none")

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(subject)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("subject", {"Get": handler}),))
    credentials = grpc.ssl_server_credentials([pair], pair[1], require_client_auth=True)
    port = server.add_secure_port(f"{LOOPBACK}:0", credentials)
    await server.start()
    try:
        shown = grpc.ssl_channel_credentials(pair[1], *pair)
        options = (("grpc.ssl_target_name_override", "localhost"),)
        async with grpc.aio.secure_channel(f"{LOOPBACK}:{port}", shown, options=options) as channel:
            ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/subject/Get")
            return text_of_grpc(await ask(b""))
    finally:
        await server.stop(None)


def by_python(certfile: Path, keyfile: Path) -> str:
    """The subject that Python gives a server."""
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
    shown = at_server.getpeercert()
    assert shown is not None
    return subject_text(shown["subject"])  # type: ignore[arg-type]


@pytest.mark.parametrize("subject", SUBJECTS)
async def test_both_kinds_of_listener_find_the_same_subject(
    tmp_path: Path, subject: Sequence[Sequence[Attribute]]
) -> None:
    """CORRECTNESS X10: one certificate is one principal, by gRPC and by Kafka's protocol."""
    pair = self_signed(tmp_path, subject)
    assert by_python(*pair) == await by_grpc(*pair)


def test_the_rules_make_the_principal() -> None:
    principals = CertificatePrincipals(r"RULE:^CN=(.*?)(,.*)?$/$1/L")
    assert principals.of("CN=Alice,O=Tides") == Principal("alice")
    assert principals.of("CN=Alice,O=Tides") is principals.of("CN=Alice,O=Tides")
    with pytest.raises(AuthenticationFailed):
        principals.of("O=Tides")


def test_the_principals_that_are_remembered_are_bounded() -> None:
    principals = CertificatePrincipals("DEFAULT")
    for number in range(SUBJECTS_KEPT_MAX + 10):
        assert principals.of(f"CN={number}") == Principal(f"CN={number}")
    assert len(principals._known) <= SUBJECTS_KEPT_MAX


def test_rules_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(SettingsError, match="setting ssl_principal_mapping_rules"):
        CertificatePrincipals("RULE:(/x/")
