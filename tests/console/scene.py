"""A cluster in which much happens: what the console's pictures show, and what its pages are tried on.

Two producers write; a group of cooperative consumers grows by a member; a stream application grows too, so a
learner restores; a broker that leads is killed and comes back; a reassignment is done.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from strandline import Admin, Consumer, Producer, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.local.cluster import LocalCluster
from strandline.streams import INTEGER, STRING, Streams, Topology
from tests.waiting import eventually

TOPICS: Final = {"orders": 6, "payments": 3, "shipments": 4, "counts": 4}
CITIES: Final = ("Hamburg", "Bergen", "Lisboa", "Gdynia", "Antwerpen", "Göteborg", "Plymouth")
RECORD_PAUSE_S: Final = 0.02
STABLE: Final = "Stable"
STEP_S_MAX: Final = 60.0


@asynccontextmanager
async def lively(directory: Path) -> AsyncIterator[LocalCluster]:
    """Three brokers; what is described above has happened, and the clients go on."""
    async with (
        LocalCluster(brokers=3, directory=directory / "cluster") as cluster,
        Admin(cluster.bootstrap) as admin,
        AsyncExitStack() as clients,
        asyncio.TaskGroup() as tasks,
    ):
        for topic, partitions in TOPICS.items():
            await admin.create_topic(topic, partitions=partitions, replication_factor=3)
        going = [tasks.create_task(each) for each in _loads(cluster.bootstrap)]
        going += [tasks.create_task(_member(cluster.bootstrap, f"billing-{n}")) for n in (1, 2)]
        await _application(cluster.bootstrap, directory / "one", clients)
        await _members(admin, "billing", 2)
        going.append(tasks.create_task(_member(cluster.bootstrap, "billing-3")))
        await _application(cluster.bootstrap, directory / "two", clients)
        await _members(admin, "billing", 3)
        await _lose_a_leader(cluster, admin)
        await admin.reassign({TopicPartition("payments", 0): [2, 3]})
        try:
            yield cluster
        finally:
            for each in going:
                each.cancel()


def _loads(bootstrap: str) -> list[Coroutine[Any, Any, None]]:
    return [_load(bootstrap, topic) for topic in ("orders", "payments", "shipments")]


async def _load(bootstrap: str, topic: str) -> None:
    clock = SystemClock()
    async with Producer(bootstrap) as producer:
        for number in itertools.count():
            city = CITIES[number % len(CITIES)]
            value = {"id": number, "harbour": city, "tonnes": (number * 37) % 900, "paid": number % 3 == 0}
            _ = await producer.send(topic, json.dumps(value).encode(), key=city.encode())
            await clock.sleep(RECORD_PAUSE_S)


async def _member(bootstrap: str, name: str) -> None:
    given: dict[str, Any] = {"group_id": "billing", "client_id": name, "rebalance_protocol": "cooperative"}
    async with Consumer(bootstrap, offset_reset="earliest", **given) as consumer:
        consumer.subscribe(["orders", "payments"])
        async for _ in consumer:
            pass


async def _application(bootstrap: str, state: Path, clients: AsyncExitStack) -> None:
    topology = Topology()
    topology.source("shipments", key=STRING).count("by-harbour").to("counts", key=STRING, value=INTEGER)
    app = Streams(topology, bootstrap, application_id="harbours", state_dir=state, client_id=state.name)
    await clients.enter_async_context(app)


async def _members(admin: Admin, group: str, count: int) -> None:
    async def stable() -> bool:
        described = (await admin.describe_group(group)).group
        return described.state == STABLE and len(described.members) == count

    await eventually(stable, deadline_s=STEP_S_MAX, what=f"{group} has {count} members")


async def _lose_a_leader(cluster: LocalCluster, admin: Admin) -> None:
    """Kill the leader of orders-0, and start it again once others lead in its place."""

    async def leader() -> int:
        (topic,) = await admin.describe_topics(["orders"])
        return topic.partitions[0].leader

    killed = await leader()
    await cluster.kill_broker(killed)

    async def moved() -> bool:
        return await leader() not in (killed, -1)

    await eventually(moved, deadline_s=STEP_S_MAX, what="another broker leads orders-0")
    await cluster.start_broker(killed)

    async def whole() -> bool:
        (topic,) = await admin.describe_topics(["orders"])
        return all(len(each.isr) == 3 for each in topic.partitions)

    await eventually(whole, deadline_s=STEP_S_MAX, what="every ISR of orders is full")
