"""The members of a new cluster: their ids, ports and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.errors import SettingsError
from strandline.local.layout import ClusterFile, MemberFile
from strandline.local.ports import cluster_ports

BROKERS_MAX: Final = 100
"""Of brokers in a local cluster, and of controllers."""


def new_members(
    brokers: int,
    controllers: int,
    *,
    base_port: int | None,
    kafka: bool,
    kafka_port: int | None,
    racks: Sequence[str],
    broker_settings: dict[str, str],
    controller_settings: dict[str, str],
    zookeeper: str | None,
    secure: bool,
) -> ClusterFile:
    """The arguments are those of `LocalCluster`, settings as environment variables have them. Raises
    SettingsError."""
    if not 0 <= brokers <= BROKERS_MAX or not 0 <= controllers <= BROKERS_MAX:
        raise SettingsError(f"a local cluster has 0 to {BROKERS_MAX} brokers and controllers")
    ports = cluster_ports(brokers, controllers, base_port, kafka=kafka, kafka_port=kafka_port)
    return ClusterFile(
        zookeeper=MemberFile(id=1, port=0 if zookeeper else ports.zookeeper, address=zookeeper),
        controllers=[
            MemberFile(id=number, port=port, metrics_port=metrics_port, settings=controller_settings)
            for number, (port, metrics_port) in enumerate(ports.controllers, 1)
        ],
        brokers=[
            MemberFile(
                id=number,
                port=port,
                metrics_port=metrics_port,
                kafka_port=ports.kafka[number - 1] if kafka else None,
                rack=racks[(number - 1) % len(racks)] if racks else "",
                settings=broker_settings,
            )
            for number, (port, metrics_port) in enumerate(ports.brokers, 1)
        ],
        secure=secure,
    )
