"""Each port, before and after a client's authentication, under inputs that no client sends (CORRECTNESS X14).

Every attack sends `--fuzz-inputs` inputs; `make fuzz` sends 100,000. After it the same processes serve, none
has logged a defect, no honest client waited for more than half a second of a server's time, and memory is
within 300 MiB of what it was before. A failure names the seed and the turn; `--fuzz-seed` repeats them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import pytest

from strandline import Admin, NewTopic, Producer
from strandline.adapters.tls.pem import Pem, read_pem
from strandline.config.client import ClientSettings
from strandline.local.cluster import LocalCluster
from strandline.local.ports import free_ports
from strandline.rpc import admin_pb2, auth_pb2, group_pb2, log_pb2, replication_pb2, transaction_pb2
from tests.broker.kafka.support.codec import API_VERSIONS
from tests.broker.kafka.support.kafka_wire import kafka_wire
from tests.conftest import ClusterFactory
from tests.integration.hostile.support.attack import Attack, Fuzz
from tests.integration.hostile.support.byte_attack import ByteAttack, http2, kafka_frames, tls_records
from tests.integration.hostile.support.call_attack import CallAttack
from tests.integration.hostile.support.hostile_calls import rpcs_of
from tests.integration.hostile.support.kafka_attack import KafkaAttack, framed
from tests.integration.hostile.support.kafka_login import MECHANISM, Login, LoginAttack
from tests.integration.hostile.support.recording import recorded_connections
from tests.integration.hostile.support.watched import Watched, watched_broker, watched_controller
from tests.integration.security.logins.support.users import PASSWORD, add_users
from tests.integration.security.support.certified import certified

pytestmark = pytest.mark.slow

HONEST: Final = "honest"
"""A topic of which no hostile input knows."""
FUZZED: Final = "fuzzed"
MEMBER_RPCS: Final = [
    *rpcs_of(log_pb2, "Log"), *rpcs_of(replication_pb2, "Replication"), *rpcs_of(group_pb2, "Groups"),
    *rpcs_of(transaction_pb2, "Transactions"),
]  # fmt: skip
OF_BROKERS: Final = ("Replication", "WriteMarkers", "AdmitPartitions")
"""In the paths of calls that only the port of members serves."""
LOGIN_RPCS: Final = rpcs_of(auth_pb2, "Auth") * 5
ADMIN_RPCS: Final = rpcs_of(admin_pb2, "Admin")
OF_MEMBERS: Final = {"leader_id": lambda random: random.choice((1, 1, 1, 2))}
OF_ADMIN: Final = {
    "validate_only": lambda random: True,
    "broker": lambda random: random.choice((-1, 0, 2, 2**31 - 1)),  # a drain of the only one ends its service
}
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, REASSIGN = 19, 20, 37, 45
SPARED: Final = (CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, REASSIGN)
"""A client that has the right to it makes as many topics as it likes."""


@dataclass
class Stage:
    """Two clusters of one broker each: one without any rights to ask for, and one with certificates and
    ACLs. The first has a port for logins too."""

    plain: LocalCluster
    secure: LocalCluster
    login_port: int
    kafka_login_port: int
    admin: Pem
    stranger: Pem
    """Of a client whose certificate is good, and who has no right."""
    http2: list[bytes]
    """What honest clients write, within TLS if there is any."""
    handshakes: list[bytes]
    """What they write to a port with TLS."""


@pytest.fixture(scope="module")
async def stage(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    login_port, kafka_login_port = free_ports(2)
    common = {"kafka_auto_create_topics": False, "offsets_topic_partitions": 2}
    plain = await make_module_cluster(
        brokers=1,
        kafka=True,
        broker_settings={
            **common,
            "external_port": login_port,
            "external_host": "127.0.0.1",
            "external_security_protocol": "SASL_PLAINTEXT",
            "kafka_external_port": kafka_login_port,
            "kafka_external_host": "127.0.0.1",
            "kafka_external_security_protocol": "SASL_PLAINTEXT",
            "sasl_enabled_mechanisms": MECHANISM,
        },
    )
    secure = await make_module_cluster(brokers=1, kafka=True, secure=True, broker_settings=common)
    for cluster in (plain, secure):
        async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
            await admin.create_topics([NewTopic(FUZZED, 2, 1), NewTopic(HONEST, 1, 1)])
    await add_users(plain, tmp_path_factory.mktemp("alice"), "alice", mechanisms=[MECHANISM])
    pem = read_pem(ClientSettings(**secure.client_settings))
    yield Stage(
        plain,
        secure,
        login_port,
        kafka_login_port,
        pem,
        read_pem(ClientSettings(**certified(secure, "eve"))),
        list(await recorded_connections(port_of(plain.address(1)), FUZZED)),
        list(await recorded_connections(port_of(secure.address(1)), FUZZED, pem)),
    )


@pytest.fixture(scope="module")
async def targets(stage: Stage) -> AsyncIterator[Mapping[str, Watched]]:
    async with AsyncExitStack() as stack:
        yield {
            "plain broker": await stack.enter_async_context(watched_broker(stage.plain)),
            "plain controller": await stack.enter_async_context(watched_controller(stage.plain)),
            "secure broker": await stack.enter_async_context(watched_broker(stage.secure)),
            "secure controller": await stack.enter_async_context(watched_controller(stage.secure)),
        }


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def grpc_bytes(stage: Stage, target: Watched) -> Attack:
    return ByteAttack(port_of(target.address), stage.http2, http2)


def handshake_bytes(stage: Stage, target: Watched) -> Attack:
    return ByteAttack(port_of(target.address), stage.handshakes, tls_records)


def bytes_after_the_handshake(stage: Stage, target: Watched) -> Attack:
    return ByteAttack(port_of(target.address), stage.http2, http2, stage.admin.client)


def calls(target: Watched, pem: Pem | None = None) -> Attack:
    return CallAttack(target.address, MEMBER_RPCS, [FUZZED], OF_MEMBERS, pem)


def admin_calls(target: Watched, pem: Pem | None = None) -> Attack:
    return CallAttack(target.address, ADMIN_RPCS, ["fuzzed-by-admin"], OF_ADMIN, pem)


def calls_before_the_login(stage: Stage, _: Watched) -> Attack:
    rpcs = [*LOGIN_RPCS, *(rpc for rpc in MEMBER_RPCS if not any(each in rpc.path for each in OF_BROKERS))]
    return CallAttack(f"127.0.0.1:{stage.login_port}", rpcs, [FUZZED], OF_MEMBERS)


def kafka_bytes(stage: Stage, _: Watched) -> Attack:
    port = port_of(stage.plain.kafka_bootstrap)
    return ByteAttack(port, [framed(each) for each in KafkaAttack(port, spared=SPARED).samples], kafka_frames)


def kafka_requests(stage: Stage, _: Watched) -> Attack:
    return KafkaAttack(port_of(stage.plain.kafka_bootstrap), spared=SPARED)


def kafka_after_the_login(stage: Stage, _: Watched) -> Attack:
    return KafkaAttack(stage.kafka_login_port, spared=SPARED, log_in=Login("alice", PASSWORD))


def kafka_handshake_bytes(stage: Stage, _: Watched) -> Attack:
    return ByteAttack(port_of(stage.secure.kafka_bootstrap), stage.handshakes, tls_records)


def kafka_of(stage: Stage, pem: Pem, spared: Collection[int] = ()) -> Attack:
    return KafkaAttack(port_of(stage.secure.kafka_bootstrap), pem.client, spared=spared)


ATTACKS: Final[Mapping[tuple[str, str], Callable[[Stage, Watched], Attack]]] = {
    ("plain broker", "grpc bytes"): grpc_bytes,
    ("plain broker", "calls"): lambda _, target: calls(target),
    ("plain broker", "calls before the login"): calls_before_the_login,
    ("plain broker", "kafka bytes"): kafka_bytes,
    ("plain broker", "kafka requests"): kafka_requests,
    ("plain broker", "kafka before the login"): lambda stage, _: LoginAttack(stage.kafka_login_port),
    ("plain broker", "kafka after the login"): kafka_after_the_login,
    ("plain controller", "grpc bytes"): grpc_bytes,
    ("plain controller", "calls"): lambda _, target: admin_calls(target),
    ("secure broker", "handshake bytes"): handshake_bytes,
    ("secure broker", "bytes after the handshake"): bytes_after_the_handshake,
    ("secure broker", "calls of a stranger"): lambda stage, target: calls(target, stage.stranger),
    ("secure broker", "calls of the admin"): lambda stage, target: calls(target, stage.admin),
    ("secure broker", "kafka handshake bytes"): kafka_handshake_bytes,
    ("secure broker", "kafka of a stranger"): lambda stage, _: kafka_of(stage, stage.stranger),
    ("secure broker", "kafka of the admin"): lambda stage, _: kafka_of(stage, stage.admin, SPARED),
    ("secure controller", "handshake bytes"): handshake_bytes,
    ("secure controller", "bytes after the handshake"): bytes_after_the_handshake,
    ("secure controller", "calls of a stranger"): lambda stage, target: admin_calls(target, stage.stranger),
    ("secure controller", "calls of the admin"): lambda stage, target: admin_calls(target, stage.admin),
}
"""What is sent, by the process that is watched, and a name."""


@pytest.mark.parametrize(("who", "what"), ATTACKS, ids=[f"{who}: {what}" for who, what in ATTACKS])
async def test_a_port_survives_hostile_inputs(
    request: pytest.FixtureRequest,
    stage: Stage,
    targets: Mapping[str, Watched],
    fuzz_seed: int,
    who: str,
    what: str,
) -> None:
    """CORRECTNESS X14"""
    target = targets[who]
    inputs = request.config.getoption("--fuzz-inputs")
    async with target.harmless(f"seed {fuzz_seed}: {who}: {what}", inputs):
        await Fuzz(inputs, fuzz_seed).run(ATTACKS[who, what](stage, target))
    cluster = stage.plain if who.startswith("plain") else stage.secure
    assert all(member.alive for member in cluster.members())
    assert target.pid in {member.pid for member in cluster.members()}
    await serves(cluster, f"after {who} {what}".replace(" ", "-"))


async def serves(cluster: LocalCluster, new_topic: str) -> None:
    """Honest clients of every port."""
    settings: dict[str, Any] = cluster.client_settings
    async with Admin(cluster.bootstrap, **settings) as admin:
        await admin.create_topic(new_topic, replication_factor=1)
    async with Producer(cluster.bootstrap, **settings) as producer:
        await (await producer.send(HONEST, b"still here"))
    if not cluster.secure:
        async with kafka_wire(cluster.kafka_bootstrap) as wire:
            assert (await wire.ask(API_VERSIONS, 0))["error_code"] == 0
