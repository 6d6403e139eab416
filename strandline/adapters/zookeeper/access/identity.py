"""Whom ZooKeeper takes this process for, and who may use the znodes that it creates."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.adapters.system.secret_file import refuse_readable_by_others
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError

ALL_PERMISSIONS: Final = 31
"""cdrwa: create, delete, read, write, administer (ZooKeeper's ZooDefs.Perms.ALL)."""

IDENTITIES_MAX: Final = 8
"""Lines of the file. A password that is replaced takes two."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An entry of a znode's ACL."""

    scheme: str
    id: str
    permissions: int = ALL_PERMISSIONS


Acl = frozenset[Grant]

OPEN: Final[Acl] = frozenset({Grant("world", "anyone")})
"""The ACL of a znode that was created without one: everyone may do everything."""


@dataclass(frozen=True, slots=True)
class Identity:
    """`credentials` are sent at the begin of each connection, as pairs of scheme and secret. `acl` is for
    the identity alone, whether or not new znodes get it."""

    credentials: tuple[tuple[str, str], ...] = ()
    acl: Acl = OPEN
    set_acl: bool = False

    def __repr__(self) -> str:
        """Has no password."""
        return f"Identity({sorted(f'{grant.scheme}:{grant.id}' for grant in self.acl)})"


def identity(settings: ZooKeeperSettings) -> Identity:
    """Raises SettingsError for a file that is missing, malformed or not secret, or if a password would be
    sent in plaintext."""
    match settings.zookeeper_auth_scheme:
        case "digest":
            assert settings.zookeeper_auth_file is not None  # the settings are checked
            _refuse_plaintext(settings)
            named = _read(settings.zookeeper_auth_file)
            acl = frozenset({Grant("digest", digest_id(named[0]))})
            return Identity(tuple(("digest", each) for each in named), acl, settings.zookeeper_set_acl)
        case "x509":
            ids = [each.strip() for each in settings.zookeeper_x509_ids.split(";") if each.strip()]
            # The scheme "auth" stands for the identity that the server has found in the certificate.
            acl = frozenset(Grant("x509", each) for each in ids) or frozenset({Grant("auth", "")})
            return Identity((), acl, settings.zookeeper_set_acl)
        case _:
            return Identity()


def digest_id(name_and_password: str) -> str:
    """The id of the scheme digest, which has no password in it: DigestAuthenticationProvider of ZooKeeper."""
    digest = hashlib.sha1(name_and_password.encode(), usedforsecurity=False).digest()
    return f"{name_and_password.partition(':')[0]}:{base64.b64encode(digest).decode()}"


def _read(path: Path) -> Sequence[str]:
    refuse_readable_by_others("setting zookeeper_auth_file =", path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, str(error)) from error
    named = [line for line in lines if line]
    if not 1 <= len(named) <= IDENTITIES_MAX:
        raise _unusable(path, f"it has {len(named)} lines; 1 to {IDENTITIES_MAX} are possible")
    for number, line in enumerate(named, 1):
        name, colon, password = line.partition(":")
        if not (name and colon and password) or not line.isprintable():
            raise _unusable(path, f"line {number} is not name:password")
    return named


def _refuse_plaintext(settings: ZooKeeperSettings) -> None:
    if settings.zookeeper_ssl or settings.zookeeper_auth_plaintext:
        return
    for host in _hosts(settings.zookeeper):
        if not _is_loopback(host):
            raise SettingsError(
                f"setting zookeeper_auth_scheme = 'digest': the password would cross the network to {host} "
                "in plaintext. Set zookeeper_ssl, or say zookeeper_auth_plaintext = true"
            )


def _hosts(zookeeper: str) -> Iterator[str]:
    for server in zookeeper.partition("/")[0].split(","):
        host, colon, port = server.strip().rpartition(":")
        yield (host if colon and port.isdigit() else server.strip()).strip("[]")


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _unusable(path: Path, why: str) -> SettingsError:
    return SettingsError(
        f"setting zookeeper_auth_file = {str(path)!r}: {why} (set STRANDLINE_ZOOKEEPER_AUTH_FILE)"
    )
