"""The certificates of a secure local cluster: one for each member, one for its admin, and their authority."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from strandline.adapters.system.clock import SystemClock
from strandline.config.security import SSL
from strandline.errors import SettingsError
from strandline.local.layout import Layout, write_secret_once
from strandline.local.ports import LOOPBACK

ADMIN: Final = "admin"
DAYS: Final = 825


class ClusterCertificates:
    """Certificates in `tls/` of a cluster's folder."""

    def __init__(self, layout: Layout) -> None:
        self.folder = layout.tls
        self._client_file = layout.client_file
        self._audit_log = layout.audit_log

    @property
    def client_settings(self) -> dict[str, Any]:
        """The settings of the admin's clients."""
        return self.settings(ADMIN)

    @property
    def cafile(self) -> Path:
        return self.folder / "ca.pem"

    def certfile(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def keyfile(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def keystore(self, name: str) -> Path:
        """The key and then the certificate, in one file."""
        return self.folder / f"{name}.keystore.pem"

    def make(self, members: list[str], *, keystore_of: str | None = None) -> None:
        """Make the authority, the certificates, the clients' settings and a keystore of one member's, as far
        as they are missing: an earlier call may have been killed between any two of them.

        Raises SettingsError without the extra `security`.
        """
        self._issue(members)
        lines = (f"{name} = {json.dumps(value)}" for name, value in self.client_settings.items())
        write_secret_once(self._client_file, "\n".join(lines) + "\n")
        if keystore_of is not None:
            parts = (self.keyfile(keystore_of), self.certfile(keystore_of))
            write_secret_once(self.keystore(keystore_of), "".join(part.read_text() for part in parts))

    def _issue(self, members: list[str]) -> None:
        wanted = [
            name
            for name in (*members, ADMIN)
            if not (self.certfile(name).exists() and self.keyfile(name).exists())
        ]
        if not wanted:
            return
        try:
            from strandline.adapters.tls.authority import Authority
        except ImportError as error:
            raise SettingsError(
                "a secure cluster needs certificates: pip install 'strandline[security]'"
            ) from error
        now = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
        if self.cafile.exists():
            authority = Authority.load(self.folder)
        else:
            authority = Authority.create(self.folder, now)
        for name in wanted:
            hosts = () if name == ADMIN else (LOOPBACK, "localhost")
            authority.issue(name, now, days=DAYS, hosts=hosts)

    def service_settings(self, name: str) -> dict[str, Any]:
        """Those of a broker or a controller: principals are the names of certificates, ACLs
        decide, and there is an audit log."""
        return self.settings(name) | {
            "ssl_principal_mapping_rules": "RULE:^CN=([^,]*)$/$1/",
            "authorizer": "acl",
            "super_users": f"User:{ADMIN}",
            "audit_log": self._audit_log(name),
        }

    def settings(self, name: str) -> dict[str, Any]:
        """The settings of a process that shows this certificate."""
        return {
            "security_protocol": SSL,
            "ssl_cafile": str(self.cafile),
            "ssl_certfile": str(self.certfile(name)),
            "ssl_keyfile": str(self.keyfile(name)),
        }
