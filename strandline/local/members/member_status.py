"""What a local cluster says about one of its processes."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.local.layout import MemberFile
from strandline.local.ports import LOOPBACK
from strandline.local.process import Process


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One process of the cluster. `kind` is zookeeper, controller, broker or console."""

    kind: str
    id: int
    host: str
    port: int
    metrics_port: int | None
    """The port of its Prometheus metrics."""
    rack: str
    pid: int | None
    """None if it is not running."""
    kafka_port: int | None = None
    """The port of a broker for Kafka clients."""

    @property
    def alive(self) -> bool:
        return self.pid is not None


def member_status(kind: str, member: MemberFile, process: Process | None) -> MemberStatus:
    running = process is not None and process.alive
    pid = process.pid if process and running else None
    return MemberStatus(
        kind, member.id, LOOPBACK, member.port, member.metrics_port, member.rack, pid, member.kafka_port
    )
