"""Every RPC and every Kafka API has a row that says which rights it needs (A3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from grpc_health.v1 import health_pb2

from strandline.adapters.rpc.serving import check_rows
from strandline.adapters.telemetry.audit import Audit
from strandline.broker.kafka.call import Api, answered
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.wire import apis
from strandline.errors import ClusterAuthorizationFailed
from strandline.ports import Caller, Rpc, ServedCall, ServedStream
from strandline.rpc import admin_pb2, auth_pb2, group_pb2, log_pb2, replication_pb2, transaction_pb2
from strandline.security.access import Access
from strandline.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.calls import KAFKA_APIS, RPCS
from strandline.security.decide import Acls
from strandline.security.principal import Principal
from strandline.security.rows import Decided
from strandline.serving.serve import CallRow, Serving
from tests.hand_clock import HandClock
from tests.waiting import eventually

ALICE = Caller("ipv4:192.0.2.1:1", "192.0.2.1", principal=Principal("alice"))
DESCRIBES = AclBinding(
    ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME),
    ALICE.principal,
    "*",
    Operation.DESCRIBE,
    Permission.ALLOW,
)


def methods() -> Iterator[str]:
    for file in (
        admin_pb2, auth_pb2, group_pb2, log_pb2, replication_pb2, transaction_pb2, health_pb2,
    ):  # fmt: skip
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                yield f"/{service.full_name}/{method.name}"


def kafka_wires() -> dict[str, apis.ApiWire[Any, Any]]:
    found = (value for value in vars(apis).values() if isinstance(value, apis.ApiWire))
    return {wire.name: wire for wire in found}


def test_every_method_of_every_service_has_a_row_and_every_row_a_method() -> None:
    """A3: a new RPC is closed until its rights are decided."""
    assert RPCS.keys() == set(methods())


def test_every_kafka_api_has_a_row_and_every_row_an_api() -> None:
    """A3: ApiVersions has no handler, since the router answers it."""
    assert KAFKA_APIS.keys() == kafka_wires().keys() | {"ApiVersions"}


def test_every_row_says_in_words_which_rights_it_needs_and_what_a_refusal_is() -> None:
    """A3: the manual shows the words, so each right of a row is among them."""
    for path, row in {**RPCS, **KAFKA_APIS}.items():
        assert row.needs, path
        assert (row.decided is Decided.NOWHERE) == (not row.refused), path
        if row.decided is not Decided.MEMBERS_ONLY:
            for right in row.rights:
                assert right.operation.name in row.needs, path


async def unused(*_: Any) -> Any:
    raise AssertionError("nothing is called")


def row(path: str) -> CallRow[Any, Any]:
    return CallRow(Rpc(path, bytes, lambda value, _: value), unused)


def serving_with(authorizer: Authorizer) -> Serving:
    clock = HandClock()
    return Serving(Access(authorizer), Audit("", clock), clock)


def test_a_call_without_a_row_is_not_served() -> None:
    """A3"""
    new = row("/strandline.v1.Log/Steal")
    with pytest.raises(LookupError, match="Steal"):
        check_rows([ServedCall(new.rpc, new.act)])
    with pytest.raises(LookupError, match="Steal"):
        serving_with(Authorizer(None)).served([new])


def test_a_kafka_api_without_a_row_is_not_served() -> None:
    """A3"""

    @dataclass(frozen=True)
    class Wire:
        name: str = "Steal"

    wire: Any = Wire()
    with pytest.raises(LookupError, match="Steal"):
        Router([Api(wire, answered(unused))])


async def test_a_call_that_needs_one_right_is_refused_before_its_handler_runs() -> None:
    """A3"""
    authorizer = Authorizer(Rules())
    authorizer.take(Acls(1))
    (call,) = serving_with(authorizer).served([row("/strandline.v1.Admin/DrainBroker")])
    assert isinstance(call, ServedCall)
    with pytest.raises(ClusterAuthorizationFailed, match=r"User:alice .* ALTER on the cluster"):
        await call.handle(b"", ALICE)


async def test_a_stream_ends_before_its_next_answer_once_the_right_is_gone() -> None:
    """A4"""
    authorizer = Authorizer(Rules())
    authorizer.take(Acls(1, [DESCRIBES]))
    answers: list[int] = []
    first = asyncio.Event()

    async def stream(_: Any, reply: Any, caller: Caller) -> None:
        for number in range(10):
            await reply(number)
            await first.wait()

    async def reply(answer: int) -> None:
        answers.append(answer)

    rpc: Rpc[Any, Any] = Rpc("/strandline.v1.Admin/StateChanges", bytes, lambda value, _: value)
    (call,) = serving_with(authorizer).served([ServedStream(rpc, stream)])
    assert isinstance(call, ServedStream)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(_refused(call.handle(_none(), reply, ALICE)))
        await eventually(lambda: bool(answers))
        authorizer.take(Acls(2))
        first.set()
    assert serving.result() and answers == [0]


async def _refused(work: Any) -> bool:
    try:
        await work
    except ClusterAuthorizationFailed:
        return True
    return False


async def _none() -> Any:
    return
    yield
