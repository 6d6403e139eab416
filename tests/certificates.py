"""An authority for tests, and certificates in files as processes and ZooKeeper read them."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """Writes what it signs into `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = trustme.CA()
        self.cafile = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.cafile))

    def issue(self, *hosts: str, name: str) -> Pair:
        """A certificate for these hosts, whose subject has the common name `name`."""
        issued = self._authority.issue_cert(*hosts, common_name=name)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        pair = Pair(self._directory, name)
        pair.certfile.write_bytes(chain)
        for path, content in ((pair.keyfile, key), (pair.keystore, key + chain)):
            path.touch(0o600)
            path.write_bytes(content)
        return pair


class Pair:
    """The files of one certificate: apart, and together as ZooKeeper wants them."""

    def __init__(self, directory: Path, name: str) -> None:
        self.certfile = directory / f"{name}.crt"
        self.keyfile = directory / f"{name}.key"
        self.keystore = directory / f"{name}.pem"
