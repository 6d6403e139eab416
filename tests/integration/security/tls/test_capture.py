"""Nothing that clients send crosses a network in plaintext, as the network sees it (CORRECTNESS X13)."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import warnings
from dataclasses import dataclass
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.security.support.capture import Capture, capture
from tests.scraping import IN_PLAINTEXT, Prometheus, scrape

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

APPLICATION_DATA: Final = b"\x17\x03\x03"
"""How a record of TLS begins that carries data (RFC 8446, section 5.1)."""
READ_S_MAX: Final = 30.0
MESSAGES_IN: Final = "kafka_server_brokertopicmetrics_messagesin"


@dataclass(frozen=True)
class Markers:
    """No other process of this machine has these words."""

    topic: str
    """The controller and ZooKeeper see it too."""
    grpc: bytes
    kafka: bytes

    @property
    def all(self) -> tuple[bytes, ...]:
        return self.topic.encode(), self.grpc, self.kafka


def new_markers() -> Markers:
    grpc, kafka = (secrets.token_hex(16).encode() for _ in range(2))
    return Markers(f"t-{secrets.token_hex(16)}", grpc, kafka)


@dataclass(frozen=True)
class Ports:
    brokers: tuple[int, ...]
    followers: tuple[int, ...]
    kafka: tuple[int, ...]
    controller: int
    zookeeper: int
    metrics: tuple[int, ...]

    @property
    def all(self) -> list[int]:
        return [*self.brokers, *self.followers, *self.kafka, self.controller, self.zookeeper, *self.metrics]


def ports_of(cluster: LocalCluster) -> Ports:
    def port(address: str) -> int:
        return int(address.partition("/")[0].rpartition(":")[2])

    (controller,) = cluster.controller_ids
    return Ports(
        tuple(map(port, cluster.bootstrap.split(","))),
        tuple(_followers_port(cluster, broker) for broker in cluster.broker_ids),
        tuple(map(port, cluster.kafka_bootstrap.split(","))),
        port(cluster.controller_address(controller)),
        port(cluster.zookeeper),
        tuple(filter(None, map(cluster.metrics_port, cluster.broker_ids))),
    )


def _followers_port(cluster: LocalCluster, broker: int) -> int:
    """The broker chose it, and its log says so."""
    lines = map(json.loads, cluster.log_path(broker).read_text().splitlines())
    return next(int(line["replication"][1]) for line in lines if line["event"] == "listening")


async def exchange(cluster: LocalCluster, markers: Markers) -> None:
    """A topic is created; a record goes by gRPC to its consumer, another by Kafka's protocol; both are
    replicated, and counted in the metrics of the topic."""
    settings = cluster.client_settings
    async with Admin(cluster.bootstrap, **settings) as admin:
        await admin.create_topic(markers.topic, replication_factor=2, config={"min.insync.replicas": "2"})
    async with Producer(cluster.bootstrap, **settings) as producer:
        await producer.send_and_wait(markers.topic, markers.grpc)
    async with Consumer(cluster.bootstrap, **settings) as consumer:
        consumer.assign([TopicPartition(markers.topic, 0)])
        consumer.seek(TopicPartition(markers.topic, 0), 0)
        async with asyncio.timeout(READ_S_MAX):
            assert (await consumer.getone()).value == markers.grpc
    of_kafka: dict[str, Any] = {"bootstrap_servers": cluster.kafka_bootstrap}
    if cluster.secure:
        context = ssl.create_default_context(cafile=settings["ssl_cafile"])
        context.load_cert_chain(settings["ssl_certfile"], settings["ssl_keyfile"])
        of_kafka |= {"security_protocol": "SSL", "ssl_context": context}
    async with AIOKafkaProducer(**of_kafka, acks="all") as writer:
        await writer.send_and_wait(markers.topic, markers.kafka)
    reader = AIOKafkaConsumer(markers.topic, auto_offset_reset="earliest", **of_kafka)
    async with reader, asyncio.timeout(READ_S_MAX):
        assert [(await reader.getone()).value for _ in range(2)] == [markers.grpc, markers.kafka]
    by = Prometheus.of(cluster) if cluster.secure else IN_PLAINTEXT
    shown = [await scrape(port, by) for port in ports_of(cluster).metrics]
    assert any(markers.topic in each.labels(f"{MESSAGES_IN}_total", "topic") for each in shown)


async def captured(cluster: LocalCluster, markers: Markers) -> Capture:
    ports = ports_of(cluster)
    try:
        with capture(ports.all) as seen:
            await exchange(cluster, markers)
    except PermissionError:
        reason = "NOT RUN: only root, or a process with CAP_NET_RAW, sees what crosses the loopback interface"
        warnings.warn(reason, stacklevel=2)
        pytest.skip(reason)
    assert seen.dropped == 0, "the kernel left packets out: the capture proves nothing"
    return seen


async def test_a_plaintext_cluster_shows_everything(make_cluster: ClusterFactory) -> None:
    """So the capture would see a marker on each hop, if it were there."""
    cluster = await make_cluster(brokers=2, kafka=True)
    markers, ports = new_markers(), ports_of(cluster)
    seen = await captured(cluster, markers)
    shown = {
        "client to controller": seen.holds(markers.topic.encode(), destination=ports.controller),
        "controller to ZooKeeper": seen.holds(markers.topic.encode(), destination=ports.zookeeper),
        "producer to broker": any(seen.holds(markers.grpc, destination=port) for port in ports.brokers),
        "broker to consumer": any(seen.holds(markers.grpc, source=port) for port in ports.brokers),
        "leader to follower": any(seen.holds(markers.kafka, source=port) for port in ports.followers),
        "Kafka producer to broker": any(seen.holds(markers.kafka, destination=port) for port in ports.kafka),
        "broker to Kafka consumer": any(seen.holds(markers.kafka, source=port) for port in ports.kafka),
        "metrics": any(seen.holds(markers.topic.encode(), source=port) for port in ports.metrics),
    }
    assert all(shown.values()), shown


async def test_an_encrypted_cluster_shows_nothing(make_cluster: ClusterFactory) -> None:
    """CORRECTNESS X13: clients, replication, the controller, Kafka clients, ZooKeeper, and metrics."""
    cluster = await make_cluster(brokers=2, kafka=True, secure=True, zookeeper=None)
    markers, ports = new_markers(), ports_of(cluster)
    seen = await captured(cluster, markers)
    for marker in markers.all:
        assert not seen.holds(marker), f"{marker!r} was sent in plaintext"
    for port in (ports.controller, ports.zookeeper, *ports.metrics):
        assert seen.holds(APPLICATION_DATA, destination=port), f"nothing was sent to {port}"
    for kind in (ports.brokers, ports.followers, ports.kafka):
        assert any(seen.holds(APPLICATION_DATA, destination=port) for port in kind)
