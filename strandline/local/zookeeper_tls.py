"""The configuration with which a ZooKeeper server speaks TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.adapters.zookeeper.connection.tls import ClientTls
from strandline.local.ports import LOOPBACK

TLS_JARS: Final = (
    "netty-buffer-*", "netty-codec-base-*", "netty-common-*", "netty-handler-[0-9]*", "netty-resolver-[0-9]*",
    "netty-transport-[0-9]*", "netty-transport-native-unix-common-*", "netty-transport-classes-epoll-*",
)  # fmt: skip
"""The smallest set with which the server speaks TLS."""

_CONFIGURATION: Final = """\
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
secureClientPort={port}
secureClientPortAddress={address}
ssl.keyStore.location={keystore}
ssl.trustStore.location={cafile}
ssl.clientAuth={client_auth}
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
client.certReload=true"""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The files of one server, all PEM, with the ending `.pem` by which ZooKeeper knows the format.

    `keystore` has the key in PKCS#8, then the certificate; `cafile` the authorities of clients. With
    `client_certificates` a client has to show one. `client` is for the check whether the server serves.
    """

    keystore: Path
    cafile: Path
    client: ClientTls
    client_certificates: bool = True

    def configuration(self, port: int) -> str:
        return _CONFIGURATION.format(
            port=port,
            address=LOOPBACK,
            keystore=self.keystore,
            cafile=self.cafile,
            client_auth="need" if self.client_certificates else "none",
        )

    def client_context(self) -> ssl.SSLContext:
        """Raises SettingsError."""
        return self.client.context()
