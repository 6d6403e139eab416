"""What a secure local cluster has beside its members: certificates, an identity for ZooKeeper, a token for
metrics."""

from __future__ import annotations

import secrets
from typing import Any, Final

from strandline.adapters.zookeeper.connection.tls import ClientTls
from strandline.local.layout import Layout, write_secret_once
from strandline.local.secure.certificates import ADMIN, ClusterCertificates
from strandline.local.secure.zookeeper_identity import ZooKeeperIdentity
from strandline.local.zookeeper_tls import ServerTls

ZOOKEEPER: Final = "zookeeper"
TOKEN_BYTES: Final = 24


class ClusterSecurity:
    """The files of one cluster, and the settings that name them. With `own_zookeeper` the cluster runs
    ZooKeeper itself, so its connections to it are encrypted too."""

    def __init__(self, layout: Layout, *, own_zookeeper: bool) -> None:
        self._certificates = ClusterCertificates(layout)
        self._identity = ZooKeeperIdentity(layout) if own_zookeeper else None
        self._token_file = layout.metrics_token

    def make(self, members: list[str]) -> None:
        """Make the files that are missing. Raises SettingsError without the extra `security`."""
        write_secret_once(self._token_file, f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
        if self._identity is None:
            self._certificates.make(members)
        else:
            self._identity.make()
            self._certificates.make([*members, ZOOKEEPER], keystore_of=ZOOKEEPER)

    @property
    def client_settings(self) -> dict[str, Any]:
        """The settings of the admin's clients."""
        return self._certificates.client_settings

    def service_settings(self, name: str) -> dict[str, Any]:
        """The settings of a broker or a controller, but for those of `zookeeper_settings`."""
        metrics = {"metrics_ssl": True, "metrics_token_file": self._token_file}
        return self._certificates.service_settings(name) | metrics

    def zookeeper_settings(self, name: str = ADMIN) -> dict[str, Any]:
        """The settings with which this member, or a tool, connects to ZooKeeper."""
        if self._identity is None:
            return {}
        shown = self._certificates.settings(name)
        files = {f"zookeeper_{key}": value for key, value in shown.items() if key.startswith("ssl_")}
        return {"zookeeper_ssl": True} | files | self._identity.settings

    @property
    def zookeeper_server(self) -> ServerTls:
        """The certificate of the cluster's own ZooKeeper. Its clients have to show one too."""
        made = self._certificates
        asks = ClientTls(made.cafile, made.certfile(ADMIN), made.keyfile(ADMIN), check_hostname=True)
        return ServerTls(made.keystore(ZOOKEEPER), made.cafile, asks)
