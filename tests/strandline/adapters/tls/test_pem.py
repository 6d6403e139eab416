"""Certificates and keys are checked before a process begins (docs/correctness.md, X10)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from strandline.adapters.tls.pem import Pem, read_pem
from strandline.config.client import ClientSettings
from strandline.config.load import load
from strandline.errors import SettingsError
from tests.tls_files import LONG_AGO, TOMORROW, YESTERDAY, Files, TestAuthority


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "theirs")


def as_server(files: Files, *, demands_certificates: bool = True) -> Pem:
    return read_pem(files.client, demands_certificates=demands_certificates)


def test_a_pair_that_fits_is_taken_by_a_server_and_a_client(authority: TestAuthority) -> None:
    """CORRECTNESS X10."""
    files = authority.issue("broker-1")
    served, shown = as_server(files).identity, read_pem(files.client).identity
    assert served is not None and shown is not None
    assert served.chain == shown.chain == files.certfile.read_bytes()
    assert served.certificate.hosts == {"127.0.0.1", "localhost"}


def test_a_client_needs_no_certificate(authority: TestAuthority) -> None:
    pem = read_pem(ClientSettings(security_protocol="SSL", ssl_cafile=authority.cafile))
    assert pem.identity is None
    assert pem.authorities == authority.cafile.read_bytes()


def test_without_ssl_cafile_a_client_trusts_the_authorities_of_the_system() -> None:
    assert read_pem(ClientSettings(security_protocol="SSL")).identity is None


@pytest.mark.parametrize(
    ("not_before", "not_after", "why"),
    [(LONG_AGO, YESTERDAY, "certificate has expired"), (TOMORROW, None, "certificate is not yet valid")],
)
def test_a_certificate_outside_its_time_is_refused_on_both_ends(
    authority: TestAuthority, not_before: object, not_after: object, why: str
) -> None:
    """CORRECTNESS X10."""
    files = authority.issue("late", not_before=not_before, not_after=not_after)  # type: ignore[arg-type]
    for read in (as_server, lambda each: read_pem(each.client)):
        with pytest.raises(SettingsError, match=rf"setting ssl_certfile = '.*late\.pem': {why}"):
            read(files)


def test_a_server_whose_own_authority_did_not_issue_its_certificate_is_refused(
    authority: TestAuthority, theirs: TestAuthority
) -> None:
    """The other members could not connect to it. A client may trust others than those that trust it."""
    files = theirs.issue("broker-1", trusts=authority.cafile)
    with pytest.raises(SettingsError, match=r"ssl_certfile = .*unable to get local issuer certificate"):
        as_server(files)
    assert read_pem(files.client).identity is not None


def test_a_key_of_another_certificate_is_refused(authority: TestAuthority) -> None:
    """CORRECTNESS X10."""
    files, other = authority.issue("one"), authority.issue("two")
    swapped = Files(files.cafile, files.certfile, other.keyfile)
    with pytest.raises(SettingsError, match=r"ssl_keyfile = '.*two\.key'.* another certificate's key"):
        as_server(swapped)


def test_a_key_that_other_users_may_read_is_refused(authority: TestAuthority) -> None:
    """CORRECTNESS X10."""
    files = authority.issue()
    files.keyfile.chmod(0o644)
    with pytest.raises(SettingsError, match=r"alice\.key': other users can read it: chmod 600"):
        read_pem(files.client)
    files.keyfile.chmod(0o640)  # as a folder of Kubernetes' secrets has it for a group
    assert read_pem(files.client).identity is not None


@pytest.mark.parametrize("missing", ["cafile", "certfile", "keyfile"])
def test_a_file_that_is_missing_or_no_pem_is_named(authority: TestAuthority, missing: str) -> None:
    files = authority.issue()
    path: Path = getattr(files, missing)
    path.write_text("none of it")
    with pytest.raises(SettingsError, match="setting ssl_"):
        read_pem(files.client)
    path.unlink()
    with pytest.raises(SettingsError, match=f"setting ssl_{missing} = '.*': No such file or directory"):
        read_pem(files.client)


def test_a_server_needs_a_certificate_and_authorities(authority: TestAuthority) -> None:
    files = authority.issue()
    with pytest.raises(SettingsError, match="needs ssl_certfile and ssl_keyfile"):
        read_pem(ClientSettings(ssl_cafile=files.cafile), demands_certificates=True)
    with pytest.raises(SettingsError, match="setting ssl_cafile"):
        read_pem(
            ClientSettings(ssl_certfile=files.certfile, ssl_keyfile=files.keyfile), demands_certificates=False
        )


def test_an_encrypted_key_is_read_with_its_password(authority: TestAuthority, tmp_path: Path) -> None:
    files = authority.issue()
    plain = files.keyfile.read_bytes()
    key = serialization.load_pem_private_key(plain, None)
    files.keyfile.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"open sesame"),
        )
    )
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    settings = ClientSettings(**files.settings, ssl_keyfile_password_file=password)
    identity = read_pem(settings).identity
    assert identity is not None and identity.key.startswith(b"-----BEGIN PRIVATE KEY-----")
    password.write_text("another")
    for refused in (settings, files.client):
        with pytest.raises(SettingsError, match="setting ssl_keyfile = "):
            read_pem(refused)


def test_a_certificate_through_an_intermediate_authority_is_taken(authority: TestAuthority) -> None:
    """The chain between the certificate and the authority stands behind it in `ssl_certfile`."""
    child = authority.child(authority.folder / "child")
    assert as_server(child.issue("broker-1", trusts=authority.cafile)).identity is not None


def test_the_settings_of_a_pair_belong_together(authority: TestAuthority) -> None:
    files = authority.issue()
    for given in ({"ssl_certfile": files.certfile}, {"ssl_keyfile": files.keyfile}):
        with pytest.raises(SettingsError, match=r"setting ssl_keyfile.*both ssl_certfile and ssl_keyfile"):
            load(ClientSettings, **given)
    with pytest.raises(SettingsError, match="host names are always verified"):
        load(ClientSettings, ssl_endpoint_identification_algorithm="")


def test_files_that_change_while_they_are_read_are_read_again(authority: TestAuthority) -> None:
    """CORRECTNESS X11: a certificate and its key are never of two different moments."""
    files, next_pair = authority.issue("one"), authority.issue("two")
    shutil.copy(next_pair.keyfile, files.keyfile)
    with pytest.raises(SettingsError, match="another certificate's key"):
        as_server(files)
    shutil.copy(next_pair.certfile, files.certfile)
    identity = as_server(files).identity
    assert identity is not None and identity.chain == next_pair.certfile.read_bytes()
