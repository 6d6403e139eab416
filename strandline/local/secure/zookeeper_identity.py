"""The identity of a local cluster for its ZooKeeper: a name and a random password in the cluster's folder."""

from __future__ import annotations

import secrets
from typing import Any, Final

from strandline.local.layout import Layout, write_secret_once

NAME: Final = "strandline"
PASSWORD_BYTES: Final = 24


class ZooKeeperIdentity:
    """The file `zookeeper-auth` of a cluster's folder, which only its owner may read."""

    def __init__(self, layout: Layout) -> None:
        self.path = layout.zookeeper_auth

    def make(self) -> None:
        """Write the file, unless it is there: the znodes of the cluster are for what it says."""
        write_secret_once(self.path, f"{NAME}:{secrets.token_urlsafe(PASSWORD_BYTES)}\n")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the cluster's brokers and controllers, and of tools that look at its znodes."""
        return {
            "zookeeper_auth_scheme": "digest",
            "zookeeper_auth_file": str(self.path),
            "zookeeper_set_acl": True,
        }
