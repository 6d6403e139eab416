"""Certificates for tests, by an authority that only they trust."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from strandline.cli.shell.clock import now
from strandline.config.client import ClientSettings

HOSTS = ("127.0.0.1", "localhost")
LONG_AGO = now(UTC) - timedelta(days=30)
YESTERDAY = now(UTC) - timedelta(days=1)
TOMORROW = now(UTC) + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate, its key, and the authority that its owner trusts."""

    cafile: Path
    certfile: Path
    keyfile: Path

    @property
    def keystore(self) -> Path:
        """Key and certificate in one file, as ZooKeeper's servers want them."""
        return self.keyfile.with_suffix(".keystore.pem")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a process that shows it."""
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(self.cafile),
            "ssl_certfile": str(self.certfile),
            "ssl_keyfile": str(self.keyfile),
        }

    @property
    def client(self) -> ClientSettings:
        return ClientSettings(**self.settings)


class TestAuthority:
    """An authority, whose files are in a folder of its own."""

    __test__ = False

    def __init__(self, folder: Path, authority: trustme.CA | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.cafile = folder / "ca.pem"
        self._authority = authority or trustme.CA()
        self._authority.cert_pem.write_to_path(str(self.cafile))

    def child(self, folder: Path) -> TestAuthority:
        """An authority whose certificate this one issued."""
        return TestAuthority(folder, self._authority.create_child_ca())

    def issue(
        self,
        name: str = "alice",
        *hosts: str,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        trusts: Path | None = None,
        file: str | None = None,
    ) -> Files:
        """A certificate of CN=`name` for these hosts, into `file`; without hosts: for this machine."""
        issued = self._authority.issue_cert(
            *(hosts or HOSTS), common_name=name, not_before=not_before, not_after=not_after
        )
        found = Files(
            trusts or self.cafile,
            self.folder / f"{file or name}.pem",
            self.folder / f"{file or name}.key",
        )
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        # PKCS#8: ZooKeeper takes no other.
        key = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        for path, content in ((found.keyfile, key), (found.keystore, key + chain)):
            path.unlink(missing_ok=True)
            path.touch(mode=0o600)
            path.write_bytes(content)
        found.certfile.write_bytes(chain)
        return found
