"""Brings Apache Kafka by Maven, and runs three of its nodes in a folder."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from strandline.local.ports import LOOPBACK, free_ports
from strandline.local.process import Process
from strandline_lab.conformance.link import can_connect

KAFKA_VERSION: Final = "4.4.0"
NODES: Final = 3
HEAP: Final = ("-Xms512m", "-Xmx768m")
QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""A node runs for a few minutes: the optimizing compiler would cost more than it gives."""
FORMAT_S_MAX: Final = 240.0
START_S_MAX: Final = 240.0
STOP_S_MAX: Final = 5.0
_LOOK_S: Final = 0.2

_POM: Final = Template("""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>strandline</groupId><artifactId>conformance</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka</version>
    </dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$kafka</version>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
""")

_PROPERTIES: Final = Template("""\
process.roles=broker,controller
node.id=$node
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$folder/data$node
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
default.replication.factor=3
min.insync.replicas=2
num.partitions=1
offsets.topic.num.partitions=5
transaction.state.log.num.partitions=5
transaction.abort.timed.out.transaction.cleanup.interval.ms=200
group.initial.rebalance.delay.ms=0
log.segment.bytes=268435456
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
""")
"""Few partitions of the internal topics make the start quick, and one replica of the transactions' topic
makes cases quick that take an id thousands of times. Transactions that time out are looked for often.
ACLs are on, and everyone may do everything. Where a default is a matter of settings, it is strandline's."""


class NotHere(Exception):
    """Maven or Java is missing, or Maven cannot bring Kafka."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """Its jars and the program that runs them."""

    jars: Path
    java: str

    @property
    def clients(self) -> Path:
        """The jar with the definitions of all messages."""
        return self.jars / f"kafka-clients-{KAFKA_VERSION}.jar"


async def bring(folder: Path) -> Kafka:
    """Has Maven copy Kafka's jars into `folder`, unless they are there. Raises NotHere."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        missing = ", ".join(name for name, found in (("java", java), ("mvn", maven)) if found is None)
        raise NotHere(f"not on PATH: {missing}. Kafka needs Java 17 or later, and Maven brings it.")
    kafka = Kafka(folder / KAFKA_VERSION, java)
    if not kafka.clients.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        partly = folder / f"{KAFKA_VERSION}.part"
        shutil.rmtree(partly, ignore_errors=True)
        (folder / "pom.xml").write_text(_POM.substitute(kafka=KAFKA_VERSION))
        copying = await asyncio.create_subprocess_exec(
            maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={partly}",
            "-DincludeScope=runtime", cwd=folder,
        )  # fmt: skip
        if await copying.wait() != 0:
            raise NotHere("Maven did not bring Kafka; its output says why.")
        partly.rename(kafka.jars)
    return kafka


@asynccontextmanager
async def running(kafka: Kafka, folder: Path) -> AsyncIterator[Sequence[str]]:
    """Three nodes, each broker and controller, whose data is in `folder`; gives their addresses in order.

    Raises ProcessFailed or TimeoutError if a node does not serve. The nodes die with this process.
    """
    ports = free_ports(2 * NODES)
    voters = ",".join(f"{index + 1}@{LOOPBACK}:{ports[NODES + index]}" for index in range(NODES))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    for index in range(NODES):
        text = _PROPERTIES.substitute(
            node=index + 1, voters=voters, port=ports[index], controller=ports[NODES + index], folder=folder
        )
        (folder / f"node{index + 1}.properties").write_text(text)
    nodes: list[Process] = []
    try:
        async with asyncio.timeout(FORMAT_S_MAX), asyncio.TaskGroup() as group:
            for node in range(1, NODES + 1):
                group.create_task(_format(kafka, folder, cluster, node))
        nodes += [_node(kafka, folder, node) for node in range(1, NODES + 1)]
        async with asyncio.timeout(START_S_MAX):
            for process, port in zip(nodes, ports, strict=False):
                await _serving(process, port)
        yield [f"{LOOPBACK}:{port}" for port in ports[:NODES]]
    finally:
        for process in nodes:
            await process.stop(clean=False, timeout_s=STOP_S_MAX)


def _spawned(kafka: Kafka, folder: Path, name: str, words: Sequence[str]) -> Process:
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    command = [kafka.java, *QUICK, "-cp", f"{kafka.jars}/*", log, *words]
    return Process.spawn(name, command, log_path=folder / f"{name}.log", environment=dict(os.environ))


async def _format(kafka: Kafka, folder: Path, cluster: str, node: int) -> None:
    words = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", f"{folder}/node{node}.properties"]
    process = _spawned(kafka, folder, f"format{node}", words)
    await process.wait()
    if process.exit_status != 0:
        raise process.failure("failed")


def _node(kafka: Kafka, folder: Path, node: int) -> Process:
    words = [*HEAP, "kafka.Kafka", f"{folder}/node{node}.properties"]
    return _spawned(kafka, folder, f"node{node}", words)


async def _serving(process: Process, port: int) -> None:
    while not await can_connect(LOOPBACK, port):
        if not process.alive:
            raise process.failure("did not start")
        await asyncio.sleep(_LOOK_S)
