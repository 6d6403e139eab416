"""A broker keeps its state under any request to the `Groups` service (CORRECTNESS X1, X6).

Every field of every request at its bounds, wrong counts, bytes that are no message, and messages with as many
elements as their size allows. No answer is a failure of the broker's own, and the broker is measured: its
memory above rest, and the CPU time of one request, which bounds how long that can hold the event loop. (The
time of a clock would also measure the machine's other work.)
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from strandline import Admin
from strandline.adapters.codecs import groups as group_wire
from strandline.config.limits import GROUP_ID_LENGTH_MAX, MESSAGE_BYTES_MAX
from strandline.errors import ErrorCode
from strandline.ids import TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.rpc import group_pb2
from strandline.vocabulary.groups import OffsetFetch
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_rpcs import GroupRpcs, Member, stable

pytestmark = pytest.mark.slow

MEMORY_MAX = 300 * 1024 * 1024
STALL_S_MAX = 10.0
"""A deadline rather than a measure: what blocked the loop for one request took 23 s and more."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
CALL_S_MAX = 20.0
HELD_S_MAX = 0.4
"""Joins, syncs and heartbeats are held; a stranger need not wait for their ends."""
AT_ONCE = 32
RANDOM_PER_RPC = 20
ALLOWED = 10_000
"""Elements: the bound on offsets of a commit, below that on elements of any request."""

REQUESTS: dict[str, type[Message]] = {
    "FindCoordinator": group_pb2.FindCoordinatorRequest,
    "JoinGroup": group_pb2.JoinGroupRequest,
    "SyncGroup": group_pb2.SyncGroupRequest,
    "Heartbeat": group_pb2.HeartbeatRequest,
    "LeaveGroup": group_pb2.LeaveGroupRequest,
    "OffsetCommit": group_pb2.OffsetCommitRequest,
    "OffsetFetch": group_pb2.OffsetFetchRequest,
    "ReportOwnership": group_pb2.ReportOwnershipRequest,
    "ReportTasks": group_pb2.ReportTasksRequest,
    "ListGroups": group_pb2.ListGroupsRequest,
    "DescribeGroup": group_pb2.DescribeGroupRequest,
    "DeleteGroup": group_pb2.DeleteGroupRequest,
}

TEXTS = [
    "", "g", "x" * GROUP_ID_LENGTH_MAX, "x" * (GROUP_ID_LENGTH_MAX + 1), "a\x00b", "\x1b[2J", "[red]",
    "é" * 249, "../../brokers", "t/0/isr", "\U0010ffff", "y" * 60_000,
]  # fmt: skip
BOUNDS: dict[int, list[object]] = {
    FieldDescriptor.TYPE_STRING: list(TEXTS),
    FieldDescriptor.TYPE_BYTES: [b"", b"\xff" * 8, b"x" * 200_000],
    FieldDescriptor.TYPE_INT32: [-(2**31), -1, 0, 1, 10_000, 2**31 - 1],
    FieldDescriptor.TYPE_INT64: [-(2**63), -1, 0, 1, 2**63 - 1],
    FieldDescriptor.TYPE_UINT32: [0, 1, 2**32 - 1],
    FieldDescriptor.TYPE_UINT64: [0, 1, 2**64 - 1],
    FieldDescriptor.TYPE_BOOL: [False, True],
    FieldDescriptor.TYPE_ENUM: [0, 1, 2, 99, -1],
    FieldDescriptor.TYPE_DOUBLE: [0.0, -1.0, float("nan"), float("inf"), 1e308],
    FieldDescriptor.TYPE_FLOAT: [0.0, float("nan"), float("inf")],
}


def fill(message: Message, rng: random.Random) -> None:
    """Set the fields of a message to their bounds, or not at all."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.15:
            continue
        for _ in range(rng.choice([0, 1, 2, 40]) if field.is_repeated else 1):
            place = getattr(message, field.name)
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                fill(place.add() if field.is_repeated else place, rng)
                continue
            value = rng.choice(BOUNDS[field.type])
            if field.name == "group" and rng.random() < 0.7:
                value = f"hostile-{rng.randrange(5)}"  # else nothing gets behind the first check
            if field.is_repeated:
                place.append(value)
            else:
                setattr(message, field.name, value)


def bounded_requests(kind: type[Message], rng: random.Random) -> Iterator[bytes]:
    """Messages at the bounds of their fields, and what is cut off or changed of them."""
    for _ in range(RANDOM_PER_RPC):
        message = kind()
        fill(message, rng)
        data = message.SerializeToString()
        if len(data) > MESSAGE_BYTES_MAX // 4:
            continue
        yield data
        at = rng.randrange(len(data) + 1)
        yield data[:at]
        yield data[:at] + rng.randbytes(8) + data[at + 8 :]
    yield rng.randbytes(1_000)
    yield b"\xff" * 20
    yield b"\x0a\xff\xff\xff\xff\x07x"  # a length that lies
    yield b"\x0b" * 10_000  # groups within groups


def crowded_requests(kind: type[Message]) -> Iterator[bytes]:
    """As many elements as a message has room for, empty ones and small ones; and as many as are allowed."""
    room = MESSAGE_BYTES_MAX - 4_096
    named = "group" in kind.DESCRIPTOR.fields_by_name
    group = kind(group="hostile-crowd").SerializeToString() if named else b""
    for field in kind.DESCRIPTOR.fields:
        if not field.is_repeated:
            continue
        tag = bytes([field.number << 3 | 2])
        yield group + (tag + b"\x00") * (room // 2)
        elements, size = [], 0
        for number in range(room):
            element = f"\x0a\x07n{number:06}".encode()[:9]
            elements.append(tag + bytes([len(element)]) + element)
            size += len(elements[-1])
            if size > room:
                break
        yield group + b"".join(elements[:-1])
        yield group + b"".join(elements[:ALLOWED])


@dataclass(slots=True)
class Process:
    """A broker, as the kernel sees it."""

    pid: int

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def memory(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name} of {self.pid}")


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    settings = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_partitions": 2}
    return await make_module_cluster(brokers=1, broker_settings=settings)


@pytest.fixture
async def member(cluster: LocalCluster) -> AsyncIterator[Member]:
    """A member of a group of honest people, which knows nothing of all this."""
    orders = TopicPartition("orders", 0)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("orders", partitions=1, replication_factor=1)
    async with GroupRpcs(cluster) as rpcs:
        member = Member(rpcs, "honest", session_timeout_ms=300_000)  # however slow this machine is
        await stable([member])
        await member.commit({orders: 42})
        yield member
        fetched = await rpcs.call(member.address, group_wire.OFFSET_FETCH, OffsetFetch("honest"))
        assert {name: found and found.offset for name, found in fetched.items()} == {orders: 42}


async def send(channel: grpc.aio.Channel, rpc: str, data: bytes, timeout_s: float) -> None:
    """Any answer will do but a failure of the broker's own."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/strandline.v1.Groups/{rpc}")
    try:
        answer = await call(data, timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        assert error.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED), (
            rpc, data[:100], error,
        )  # fmt: skip
        return
    response = getattr(group_pb2, f"{rpc}Response").FromString(answer)
    assert response.error.code != ErrorCode.UNKNOWN_SERVER_ERROR, (rpc, data[:100], response.error)


async def test_no_request_of_an_outsider_harms_a_coordinator(cluster: LocalCluster, member: Member) -> None:
    """Bounded in memory, in time, and in what it does to others."""
    (pid,) = [m.pid for m in cluster.members() if m.kind == "broker"]
    assert pid is not None
    process = Process(pid)
    rest = process.memory("VmRSS")
    rng = random.Random(20261123)
    options = (("grpc.max_send_message_length", -1),)
    async with grpc.aio.insecure_channel(member.address, options=options) as channel:
        for rpc, kind in REQUESTS.items():
            for data in crowded_requests(kind):
                before = process.cpu_s()
                await send(channel, rpc, data, CALL_S_MAX)
                took = process.cpu_s() - before
                assert took <= STALL_S_MAX, f"{rpc} of {len(data)} bytes took {took:.2f} s of CPU"
            requests = list(bounded_requests(kind, rng))
            for first in range(0, len(requests), AT_ONCE):
                async with asyncio.TaskGroup() as tasks:
                    for data in requests[first : first + AT_ONCE]:
                        tasks.create_task(send(channel, rpc, data, HELD_S_MAX))
            await member.heartbeat()
    above = process.memory("VmHWM") - rest
    assert above <= MEMORY_MAX, f"{above >> 20} MiB above rest at its peak"
    assert [m.pid for m in cluster.members() if m.kind == "broker"] == [pid]
