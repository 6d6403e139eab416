"""The members of a new cluster, and a broker that is added to one: their ids, ports and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from strandline.errors import SettingsError
from strandline.local.layout import ClusterFile, MemberFile
from strandline.local.ports import METRICS_OFFSET, cluster_ports, free_ports, is_free

BROKERS_MAX: Final = 100
"""Of brokers in a local cluster, and of controllers."""
_BOUND: Final = f"a local cluster has 0 to {BROKERS_MAX} brokers and controllers"


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
        raise SettingsError(_BOUND)
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


def new_broker(cluster: ClusterFile, settings: dict[str, str], *, rack: str | None = None) -> MemberFile:
    """The next broker of a cluster. `rack` None: the one with the fewest brokers.

    Ports that were counted up from a base port, or from a first port for Kafka clients, are counted on; one
    that is taken is replaced by a free one. Raises SettingsError if there are too many brokers.
    """
    brokers = cluster.brokers
    if len(brokers) >= BROKERS_MAX:
        raise SettingsError(_BOUND)
    taken = {port for port, _ in cluster.ports()}
    port, metrics_port = _counted_on(brokers, taken) or _free(2, taken)
    kafka_port = None
    if any(member.kafka_port is not None for member in brokers):
        kafka_port = _next_for_kafka(brokers, taken | {port, metrics_port})
    return MemberFile(
        id=max((member.id for member in brokers), default=0) + 1,
        port=port,
        metrics_port=metrics_port,
        kafka_port=kafka_port,
        rack=_emptiest_rack(brokers) if rack is None else rack,
        settings=settings,
    )


def _counted_on(brokers: Sequence[MemberFile], taken: set[int]) -> tuple[int, int] | None:
    """The service port and the metrics port after a base port; None if there is none, or they are taken."""
    if not brokers or any(member.metrics_port != member.port + METRICS_OFFSET for member in brokers):
        return None
    port = max(member.port for member in brokers) + 1
    both = port, port + METRICS_OFFSET
    return both if taken.isdisjoint(both) and all(map(is_free, both)) else None


def _next_for_kafka(brokers: Sequence[MemberFile], taken: set[int]) -> int:
    ports = sorted(member.kafka_port for member in brokers if member.kafka_port is not None)
    following = ports[-1] + 1
    counted = len(ports) > 1 and ports == list(range(ports[0], following))
    return following if counted and following not in taken and is_free(following) else _free(1, taken)[0]


def _free(count: int, taken: set[int]) -> list[int]:
    """Free ports that no member has; a stopped member's port is free for others until it starts."""
    while not taken.isdisjoint(found := free_ports(count)):
        pass
    return found


def _emptiest_rack(brokers: Sequence[MemberFile]) -> str:
    """The first of them, in the order of the brokers; empty if the brokers have none."""
    used = Counter(member.rack for member in brokers)
    return min(used, key=lambda rack: used[rack], default="")
