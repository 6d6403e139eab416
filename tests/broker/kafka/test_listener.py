"""The Kafka ports of a broker: their addresses, their limits, and connections that do nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from strandline.adapters.rpc.refused_requests import CONNECTIONS, RefusedRequests
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.service_host import service_host
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.telemetry.kafka_traffic import CLIENTS
from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.broker.kafka.call import Api, Call, answered
from strandline.broker.kafka.connection import KafkaConnection
from strandline.broker.kafka.listener import KafkaListener
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.metadata import BrokerAddress, MetadataAnswer, MetadataRequest
from strandline.errors import SettingsError
from strandline.ports import Listener
from strandline.security.login.mechanisms import SCRAM_SHA_512
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import DEFAULT, Quota, QuotaEntity, Quotas
from strandline.vocabulary.metadata import Endpoint
from tests.broker.kafka.support.codec import API_VERSIONS, encode_request
from tests.broker.kafka.support.kafka_wire import kafka_wire
from tests.broker.kafka.support.memory_connection import MemoryTransport
from tests.broker.support.quotas import UNLIMITED
from tests.broker.support.replicas import CLOCK, HOST, settings
from tests.tls_files import TestAuthority
from tests.waiting import eventually

PLAIN = Endpoint(1, "10.0.0.1", 9092)
NO_APIS = Router(())
HELLO = "ApiVersions"
CLIENT_S_MAX = 20.0


def listener(
    *,
    users_known: bool = True,
    refused: RefusedRequests | None = None,
    quotas: ClientQuotas = UNLIMITED,
    **given: Any,
) -> KafkaListener:
    chosen = settings(**given)
    return KafkaListener(
        chosen,
        service_host(chosen) if "ssl_certfile" in given else HOST,
        RequestTimes(CLOCK),
        refused or RefusedRequests(CLOCK),
        Audit("", CLOCK),
        quotas,
        lambda: users_known,
    )


@asynccontextmanager
async def serving(*, router: Router = NO_APIS, **given: Any) -> AsyncIterator[tuple[KafkaListener, Endpoint]]:
    """A listener on a free port."""
    served = listener(kafka_port=0, **given)
    endpoint = served.bind(PLAIN)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(served.run(router))
            yield served, endpoint
            running.cancel()
    finally:
        served.stop()


class ClosedTransport(MemoryTransport):
    """Tells when it is closed."""

    def __init__(self, told: Callable[[], object]) -> None:
        super().__init__()
        self._told = told

    def close(self) -> None:
        self._told()


def address(endpoint: Endpoint) -> str:
    assert endpoint.kafka is not None
    host, port = endpoint.kafka
    return f"{host}:{port}"


def test_without_a_port_there_is_no_address() -> None:
    assert listener().bind(PLAIN) == PLAIN


async def test_addresses_follow_the_settings() -> None:
    async with serving() as (_, endpoint):
        assert endpoint.kafka is not None and endpoint.kafka_external is None
        assert endpoint.kafka[0] == "127.0.0.1" and endpoint.kafka[1] > 0
    given: dict[str, Any] = {
        "advertised_host": "broker-1",
        "kafka_external_port": 0,
        "kafka_external_host": "outside",
    }
    async with serving(**given) as (_, endpoint):
        assert endpoint.kafka is not None and endpoint.kafka_external is not None
        assert (endpoint.kafka[0], endpoint.kafka_external[0]) == ("broker-1", "outside")
    given = {"advertised_host": "broker-1", "kafka_advertised_host": "k1", "kafka_advertised_port": 9094}
    async with serving(**given) as (_, endpoint):
        assert endpoint.kafka == ("k1", 9094)


async def test_a_port_that_is_taken_is_refused_at_the_start() -> None:
    async with serving() as (_, endpoint):
        assert endpoint.kafka is not None
        with pytest.raises(SettingsError, match="STRANDLINE_KAFKA_PORT"):
            listener(kafka_port=endpoint.kafka[1]).bind(PLAIN)


async def test_a_stop_closes_connections_in_the_order_in_which_they_came() -> None:
    """A simulation repeats it. Here, they came in another order than their objects were made."""
    closed: list[KafkaConnection] = []
    async with serving() as (served, endpoint), kafka_wire(address(endpoint)) as first:
        await first.ask(API_VERSIONS, 3)
        made = [KafkaConnection(served, Listener.INTERNAL) for _ in range(32)]
        Random(0).shuffle(made)
        for connection in made:
            connection.connection_made(ClosedTransport(partial(closed.append, connection)))
        assert not closed
        served.stop()
        assert closed == made


async def test_connections_beyond_the_bound_are_closed() -> None:
    """CORRECTNESS X6."""
    async with serving(kafka_connections_max=2) as (served, endpoint):
        async with kafka_wire(address(endpoint)) as first, kafka_wire(address(endpoint)):
            await first.ask(API_VERSIONS, 3)
            await eventually(lambda: served.count == 2)
            async with kafka_wire(address(endpoint)) as third:
                assert await third.ended() == b""
            await first.ask(API_VERSIONS, 3)
        await eventually(lambda: served.count == 0)
        async with kafka_wire(address(endpoint)) as again:
            await again.ask(API_VERSIONS, 3)


async def test_one_address_has_a_bound_of_connections() -> None:
    """CORRECTNESS X6: one client does not take the place of all others, and what is refused is counted."""
    refused = RefusedRequests(CLOCK)
    async with serving(kafka_client_connections_max=1, refused=refused) as (served, endpoint):
        async with kafka_wire(address(endpoint)) as first:
            await first.ask(API_VERSIONS, 3)
            async with kafka_wire(address(endpoint)) as second:
                assert await second.ended() == b""
            await first.ask(API_VERSIONS, 3)
        assert (CONNECTIONS, ("kafka_port",), 1) in refused.read()
        await eventually(lambda: served.count == 0)
        async with kafka_wire(address(endpoint)) as again:
            await again.ask(API_VERSIONS, 3)


@pytest.mark.parametrize("bound", ["kafka_connections_max", "kafka_client_connections_max"])
async def test_connections_count_before_they_are_encrypted(bound: str, tmp_path: Path) -> None:
    """CORRECTNESS X6: a stranger needs no certificate to open connections that say nothing."""
    refused = RefusedRequests(CLOCK)
    given: dict[str, Any] = {bound: 1, **TestAuthority(tmp_path).issue("broker-1").settings}
    async with serving(refused=refused, **given) as (_, endpoint):
        async with kafka_wire(address(endpoint)), kafka_wire(address(endpoint)) as second:
            assert await second.ended() == b""
        assert (CONNECTIONS, ("kafka_port",), 1) in refused.read()


def rate_of_connections(per_s: float, delay_ms_max: int) -> ClientQuotas:
    """Of each address."""
    quotas = ClientQuotas(lambda _: False, CLOCK.monotonic, delay_ms_max=delay_ms_max)
    quotas.take(Quotas({QuotaEntity(ip=DEFAULT): {Quota.CONNECTION_CREATION_RATE: per_s}}))
    return quotas


@pytest.mark.parametrize("encrypted", [False, True])
async def test_connections_over_the_rate_of_their_address_wait_for_their_turn(
    encrypted: bool, tmp_path: Path
) -> None:
    """KIP-612: before they are encrypted. They count for the bound of their address meanwhile."""
    quotas, refused = rate_of_connections(1, 5_000), RefusedRequests(CLOCK)
    pem = TestAuthority(tmp_path).issue("broker-1")
    given: dict[str, Any] = pem.settings if encrypted else {}
    tls = ReloadedPem(pem.client, CLOCK).now().client if encrypted else None

    async def ask_once() -> None:
        async with kafka_wire(address(endpoint), tls) as second:
            await second.ask(API_VERSIONS, 3)

    async with (
        serving(quotas=quotas, refused=refused, kafka_client_connections_max=2, **given) as (_, endpoint),
        kafka_wire(address(endpoint), tls) as first,
        asyncio.TaskGroup() as tasks,
    ):
        began = CLOCK.monotonic()
        await first.ask(API_VERSIONS, 3)
        asking = tasks.create_task(ask_once())
        await eventually(lambda: quotas.throttled_s(Quota.CONNECTION_CREATION_RATE) > 0)
        async with kafka_wire(address(endpoint)) as third:
            assert await third.ended() == b""
        assert (CONNECTIONS, ("kafka_port",), 1) in refused.read()
        await asking
        assert CLOCK.monotonic() - began >= 0.5


async def test_a_connection_whose_turn_would_come_too_late_is_closed_after_the_longest_wait() -> None:
    """CORRECTNESS X6, KIP-612: not at once, since its client would connect again at once."""
    quotas, refused = rate_of_connections(1, 200), RefusedRequests(CLOCK)
    async with serving(quotas=quotas, refused=refused) as (served, endpoint):
        async with kafka_wire(address(endpoint)) as first:
            await first.ask(API_VERSIONS, 3)
            began = CLOCK.monotonic()
            async with kafka_wire(address(endpoint)) as second:
                second.send(b"said, and not read")
                assert await second.ended() == b""
            assert CLOCK.monotonic() - began >= 0.2
            await first.ask(API_VERSIONS, 3)
        assert (CONNECTIONS, ("kafka_port",), 1) in refused.read()
        await eventually(lambda: served.count == 0)


async def test_a_listener_that_ends_closes_connections_that_wait() -> None:
    quotas = rate_of_connections(1, 5_000)
    async with AsyncExitStack() as wires:
        async with serving(quotas=quotas) as (_, endpoint):
            first = await wires.enter_async_context(kafka_wire(address(endpoint)))
            waiting = await wires.enter_async_context(kafka_wire(address(endpoint)))
            await eventually(lambda: quotas.throttled_s(Quota.CONNECTION_CREATION_RATE) > 0)
        assert (await first.ended(), await waiting.ended()) == (b"", b"")


@pytest.mark.parametrize("users_known", [True, False])
async def test_a_port_with_logins_takes_connections_once_it_knows_its_users(users_known: bool) -> None:
    """A10: a client that was refused for its password would not try again."""
    sasl: dict[str, Any] = {
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": SCRAM_SHA_512,
    }
    async with (
        serving(users_known=users_known, **sasl) as (served, endpoint),
        kafka_wire(address(endpoint)) as connection,
    ):
        if users_known:
            await eventually(lambda: served.count == 1)
        else:
            assert await connection.ended() == b""


async def test_an_idle_connection_is_closed() -> None:
    async with serving(kafka_idle_ms_max=200) as (_, endpoint), kafka_wire(address(endpoint)) as wire:
        await wire.ask(API_VERSIONS, 3)
        assert await wire.ended() == b""


async def test_half_a_frame_is_given_up_and_other_connections_stay() -> None:
    """CORRECTNESS X6."""
    async with (
        serving(kafka_frame_ms_max=200) as (_, endpoint),
        kafka_wire(address(endpoint)) as wire,
        kafka_wire(address(endpoint)) as other,
    ):
        wire.send(b"\0\0\0\x50\0")
        assert await wire.ended() == b""
        await other.ask(API_VERSIONS, 3)


async def test_the_end_of_a_listener_closes_its_connections() -> None:
    async with serving() as (served, endpoint), kafka_wire(address(endpoint)) as wire:
        await wire.ask(API_VERSIONS, 3)
        served.stop()
        assert await wire.ended() == b""
        with pytest.raises(OSError):
            await asyncio.open_connection(*address(endpoint).split(":"))


@asynccontextmanager
async def held() -> AsyncIterator[tuple[KafkaListener, asyncio.Event, asyncio.Task[Any], Endpoint]]:
    """A request that waits until the event is set."""
    begun, done = asyncio.Event(), asyncio.Event()

    async def metadata(request: MetadataRequest, call: Call) -> MetadataAnswer:
        begun.set()
        await done.wait()
        return MetadataAnswer((), None, 7, ())

    router = Router([Api(apis.METADATA, answered(metadata))])
    async with (
        serving(router=router) as (served, endpoint),
        kafka_wire(address(endpoint)) as wire,
        asyncio.TaskGroup() as tasks,
    ):
        asking = tasks.create_task(wire.ask(apis.METADATA.key, 1))
        await begun.wait()
        yield served, done, asking, endpoint


async def test_the_last_answers_leave_before_the_end() -> None:
    """A coordinator that ends refuses the members that wait, and they learn it."""
    async with held() as (served, done, asking, endpoint), asyncio.TaskGroup() as tasks:
        draining = tasks.create_task(served.drain())
        await eventually(lambda: refuses(endpoint))
        assert not draining.done() and not asking.done()
        done.set()
        await draining
        served.stop()
        assert (await asking)["controller_id"] == 7


async def refuses(endpoint: Endpoint) -> bool:
    try:
        _, writer = await asyncio.open_connection(*address(endpoint).split(":"))
    except OSError:
        return True
    writer.close()
    return False


async def test_the_wait_for_the_last_answers_has_a_bound() -> None:
    async with held() as (served, done, asking, _):
        await served.drain()
        assert not asking.done()
        done.set()


async def test_a_defect_of_a_handler_ends_the_listener_before_its_group_takes_no_more_tasks() -> None:
    """A connection that began a request in between would fail as well, and hide the defect."""
    open_after: list[bool] = []

    async def metadata(request: MetadataRequest, call: Call) -> MetadataAnswer:
        def after(_: object) -> None:
            open_after.append(served.opened(KafkaConnection(served, Listener.INTERNAL)))

        handling = asyncio.current_task()
        assert handling is not None
        handling.add_done_callback(after)
        raise RuntimeError("a defect")

    router = Router([Api(apis.METADATA, answered(metadata))])
    with pytest.raises(ExceptionGroup) as raised:
        async with serving(router=router) as (served, endpoint), kafka_wire(address(endpoint)) as wire:
            data = encode_request(apis.METADATA.key, 1, {}, correlation_id=1)
            wire.send(len(data).to_bytes(4, "big") + data)
            assert await wire.ended() == b""
    assert raised.group_contains(RuntimeError, match="a defect")
    assert open_after == [False]


async def test_a_stop_may_come_before_the_start() -> None:
    """A broker may be asked to stop while it opens its data folder."""
    served = listener(kafka_port=0)
    served.bind(PLAIN)
    served.stop()
    async with asyncio.timeout(10):
        await served.run(NO_APIS)


async def test_a_connection_whose_answers_are_not_read_is_closed() -> None:
    """CORRECTNESS X6: also with a request behind them that may not begin."""
    host = "h" * 30_000
    answer = MetadataAnswer(tuple(BrokerAddress(number, host, 1) for number in range(300)), None, 1, ())

    async def metadata(request: MetadataRequest, call: Call) -> MetadataAnswer:
        return answer

    router = Router([Api(apis.METADATA, answered(metadata))])
    async with serving(router=router, kafka_write_ms_max=200) as (served, endpoint):
        assert endpoint.kafka is not None
        with socket.create_connection(endpoint.kafka) as client:
            data = encode_request(apis.METADATA.key, 0, {})
            client.sendall((len(data).to_bytes(4, "big") + data) * 10)
            await eventually(lambda: served.count == 1)
            await eventually(lambda: served.count == 0)


async def by_librdkafka(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    await asyncio.to_thread(client.list_topics, timeout=CLIENT_S_MAX)


async def by_kafka_python(bootstrap: str) -> None:
    admin = await asyncio.to_thread(KafkaAdminClient, bootstrap_servers=bootstrap)
    await asyncio.to_thread(admin.close)


@pytest.mark.parametrize("connects", [by_librdkafka, by_kafka_python])
async def test_a_client_asks_for_versions_once_a_connection(
    connects: Callable[[str], Awaitable[None]],
) -> None:
    """A version that is not served costs a round trip more, in each new connection."""
    own = list[BrokerAddress]()

    async def metadata(request: MetadataRequest, call: Call) -> MetadataAnswer:
        return MetadataAnswer(tuple(own), "c", 1, ())

    async with serving(router=Router([Api(apis.METADATA, answered(metadata))])) as (served, endpoint):
        assert endpoint.kafka is not None
        own.append(BrokerAddress(1, *endpoint.kafka))
        await connects(address(endpoint))
        named = [each.value for each in served.traffic.read() if each.metric is CLIENTS]
        asked = {version: count for (api, version), count in served.traffic.requests.items() if api == HELLO}
        assert named and [sum(asked.values())] == named, asked
