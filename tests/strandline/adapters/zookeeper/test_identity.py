"""The identity of a process for ZooKeeper: what its settings and its file may say (CORRECTNESS Z2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_digest_acl_credential

from strandline.adapters.zookeeper.access.identity import OPEN, Grant, Identity, digest_id, identity
from strandline.config.load import load
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError

SECRET = "strandline:correct:horse"


def secret_file(directory: Path, content: str = SECRET, mode: int = 0o600) -> Path:
    path = directory / "auth"
    path.write_text(content)
    path.chmod(mode)
    return path


def by_digest(directory: Path, **others: Any) -> ZooKeeperSettings:
    file = secret_file(directory)
    return load(ZooKeeperSettings, zookeeper_auth_scheme="digest", zookeeper_auth_file=file, **others)


def test_the_id_of_a_digest_is_what_zookeeper_makes_of_name_and_password() -> None:
    assert digest_id(SECRET) == make_digest_acl_credential("strandline", "correct:horse")
    assert "horse" not in digest_id(SECRET)


def test_each_line_is_an_identity_and_the_first_owns_what_is_created(tmp_path: Path) -> None:
    """A password is replaced without a stop: the process has both identities meanwhile."""
    file = secret_file(tmp_path, "new:1\nold:2\n")
    found = identity(load(ZooKeeperSettings, zookeeper_auth_scheme="digest", zookeeper_auth_file=file))
    assert found.credentials == (("digest", "new:1"), ("digest", "old:2"))
    assert found.acl == {Grant("digest", digest_id("new:1"))}


def test_an_identity_is_shown_without_its_password(tmp_path: Path) -> None:
    found = identity(by_digest(tmp_path))
    assert "horse" not in repr(found)
    assert "horse" not in repr(by_digest(tmp_path))


def test_without_a_scheme_a_process_has_no_identity() -> None:
    assert identity(ZooKeeperSettings()) == Identity((), OPEN, set_acl=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"zookeeper_ssl_cafile": "ca.pem"}, "zookeeper_ssl_cafile = .*needs zookeeper_ssl = true"),
        ({"zookeeper_ssl": True, "zookeeper_ssl_certfile": "a"}, "set both zookeeper_ssl_certfile and"),
        ({"zookeeper_ssl": True, "zookeeper_ssl_keyfile": "a"}, "set both zookeeper_ssl_certfile and"),
        ({"zookeeper_auth_scheme": "sasl"}, "zookeeper_auth_scheme = 'sasl'"),
        ({"zookeeper_auth_scheme": "x509", "zookeeper_ssl": True}, "x509 needs zookeeper_ssl_certfile"),
        ({"zookeeper_auth_scheme": "digest"}, "zookeeper_auth_scheme = digest and zookeeper_auth_file tog"),
        ({"zookeeper_auth_file": "a"}, "zookeeper_auth_scheme = digest and zookeeper_auth_file together"),
        ({"zookeeper_set_acl": True}, "zookeeper_set_acl = True: .*needs zookeeper_auth_scheme"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(ZooKeeperSettings, **given)


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    settings = by_digest(tmp_path)
    secret_file(tmp_path, mode=mode)
    with pytest.raises(SettingsError, match=r"zookeeper_auth_file = .*: other users may read it: chmod 600"):
        identity(settings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it has 0 lines"),
        ("\n\n", "it has 0 lines"),
        ("a:b\n" * 9, "it has 9 lines"),
        ("password", "line 1 is not name:password"),
        ("a:b\n:password\n", "line 2 is not name:password"),
        ("name:\n", "line 1 is not name:password"),
        ("name:pass\0word\n", "line 1 is not name:password"),
    ],
)
def test_a_malformed_file_is_refused_and_not_shown(tmp_path: Path, content: str, said: str) -> None:
    settings = by_digest(tmp_path)
    secret_file(tmp_path, content)
    with pytest.raises(SettingsError, match=said) as raised:
        identity(settings)
    assert "pass\0word" not in raised.value.message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    settings = by_digest(tmp_path)
    (tmp_path / "auth").unlink()
    with pytest.raises(SettingsError, match=r"zookeeper_auth_file = .*: No such file"):
        identity(settings)


@pytest.mark.parametrize(
    "zookeeper",
    ["127.0.0.1:2181", "localhost:2181/chroot", "127.0.0.1:1,127.1.2.3:2", "[::1]:2181", "127.0.0.1"],
)
def test_a_password_may_be_sent_in_plaintext_to_this_machine(tmp_path: Path, zookeeper: str) -> None:
    assert identity(by_digest(tmp_path, zookeeper=zookeeper)).credentials == (("digest", SECRET),)


@pytest.mark.parametrize(
    ("zookeeper", "host"),
    [
        ("zk1:2181", "zk1"),
        ("127.0.0.1:2181,10.0.0.1:2181/chroot", "10.0.0.1"),
        ("127.0.0.1.example.org:2181", "127.0.0.1.example.org"),
        ("[fe80::1]:2181", "fe80::1"),
    ],
)
def test_a_password_crosses_no_network_in_plaintext(tmp_path: Path, zookeeper: str, host: str) -> None:
    """A reader of the network would own the cluster, so it takes an explicit setting."""
    with pytest.raises(SettingsError, match=f"would cross the network to {host} in plaintext"):
        identity(by_digest(tmp_path, zookeeper=zookeeper))
    assert identity(by_digest(tmp_path, zookeeper=zookeeper, zookeeper_auth_plaintext=True)).credentials
    assert identity(by_digest(tmp_path, zookeeper=zookeeper, zookeeper_ssl=True)).credentials


def test_a_certificate_is_an_identity_without_a_secret(tmp_path: Path) -> None:
    """The ACL names all certificates that the settings list, or the one that ZooKeeper has seen."""
    files = {"zookeeper_ssl_certfile": tmp_path / "c", "zookeeper_ssl_keyfile": tmp_path / "k"}
    settings = {"zookeeper_ssl": True, "zookeeper_auth_scheme": "x509", **files}
    assert identity(load(ZooKeeperSettings, **settings)).acl == {Grant("auth", "")}
    several = identity(load(ZooKeeperSettings, zookeeper_x509_ids="CN=b1,O=x; CN=b2,O=x;", **settings))
    assert several.acl == {Grant("x509", "CN=b1,O=x"), Grant("x509", "CN=b2,O=x")}
    assert several.credentials == ()
