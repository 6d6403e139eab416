"""Clients with certificates of a secure cluster's own authority."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from strandline.adapters.tls.authority import Authority, certificate_path, key_path
from strandline.cli.shell.clock import now
from strandline.local.cluster import LocalCluster


def certified(cluster: LocalCluster, name: str) -> dict[str, Any]:
    """The settings of a client with a new certificate that names it so."""
    Authority.load(cluster.directory / "tls").issue(name, now(UTC), days=1)
    return showing(cluster, name)


def showing(cluster: LocalCluster, name: str) -> dict[str, Any]:
    """The settings of a client that shows a certificate which exists, such as a member's."""
    folder = cluster.directory / "tls"
    return {
        **cluster.client_settings,
        "ssl_certfile": str(certificate_path(folder, name)),
        "ssl_keyfile": str(key_path(folder, name)),
    }
