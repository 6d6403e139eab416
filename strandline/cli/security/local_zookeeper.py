"""The ZooKeeper of commands that go to it directly, past the cluster."""

from __future__ import annotations

import os
from typing import Any

from strandline.cli.shell.command import Invocation


def local_zookeeper(invocation: Invocation) -> dict[str, Any]:
    """The settings of the local cluster, if there is one and the environment names no ZooKeeper."""
    named = {"STRANDLINE_ZOOKEEPER", "STRANDLINE_CONFIG"} & {name.upper() for name in os.environ}
    if named or not invocation.directory.exists():
        return {}
    from strandline.local.cluster import LocalCluster

    return LocalCluster.open(invocation.directory).zookeeper_settings
