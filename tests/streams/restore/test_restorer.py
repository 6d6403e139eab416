"""Changelogs on a real broker, restored into stores on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from strandline import Admin, LocalCluster, Producer, TopicPartition
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system_host import system_host
from strandline.errors import InvalidRequest, StorageFailed, UnknownTopicOrPartition
from strandline.ids import NO_EPOCH
from strandline.ports import CallUnknown, Method, Request, Response, Stream
from strandline.streams.core.checkpoint import NOTHING
from strandline.streams.core.task import TaskId
from strandline.streams.restore.restoration import SLICE_RECORDS
from strandline.streams.restore.restorer import Restorer
from strandline.testing import SimulatedCluster
from strandline.vocabulary.log import FetchRequest
from tests.streams.restore.changelogs import Changelog, contents, create_topic, new_changelogs, raised
from tests.streams.restore.conftest import OpenStore
from tests.waiting import DEADLINE_S, eventually


class Watched(GrpcTransport):
    """Knows what was asked for, by partition the offsets in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: dict[TopicPartition, list[int]] = {}

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        def encode(request: Request) -> Any:
            if isinstance(request, FetchRequest):
                for wanted in request.partitions:
                    self.fetched.setdefault(wanted.name, []).append(wanted.offset)
            return method.encode(request)

        return await super().open(address, replace(method, encode=encode), timeout_s=timeout_s)


class OfEarlierBrokers(GrpcTransport):
    """The brokers at its other end do not know of epochs' ends."""

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        path = method.path.replace("EpochEnds", "EpochEndsOfALaterVersion")
        return await super().call(address, replace(method, path=path), request, timeout_s=timeout_s)


COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "65536", "min.cleanable.dirty.ratio": "0.1"}


async def test_a_changelog_is_restored_to_its_end(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(5_000, keys=1_000)
    async with Producer(cluster.bootstrap) as producer:
        await changelog.write([(b"k%08d" % number, None) for number in range(100)], producer)
    store = open_store()
    restoration = restorer.begin(changelog.task, changelog.name, store)
    assert await restoration.complete() == changelog.end == store.checkpoint
    assert contents(store) == changelog.table
    assert restoration.restored == 5_100
    assert (restoration.lag, restoration.remaining_s) == (0, 0)
    assert restoration.records_per_s > 0


async def test_an_empty_changelog_is_complete_at_once(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    (changelog,) = await new_changelogs(cluster)
    restoration = restorer.begin(changelog.task, changelog.name, open_store())
    await restoration.within(0)
    assert await restoration.complete() == 0


async def test_a_compacted_changelog_is_restored_from_what_is_left_of_it(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    (changelog,) = await new_changelogs(cluster, config=COMPACTED)
    await changelog.fill(10_000, keys=50)

    async def few() -> bool:
        store = open_store()
        restoration = restorer.begin(changelog.task, changelog.name, store)
        assert await restoration.complete() == changelog.end == store.checkpoint
        assert contents(store) == changelog.table
        store.close()
        return restoration.restored < 5_000

    await eventually(few, deadline_s=30, what="what is restored is compacted")


async def test_a_restoration_continues_from_the_checkpoint(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    """The content of a closed store, with its checkpoint, is not read again (CORRECTNESS S3)."""
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(3_000)
    store = open_store("one")
    await restorer.begin(changelog.task, changelog.name, store).complete()
    store.close()
    await changelog.fill(70)
    store = open_store("one")
    transport = Watched()
    watched = replace(system_host(), transport=lambda _key: transport)
    async with Restorer(cluster.bootstrap, settings={}, host=watched) as later:
        restoration = later.begin(changelog.task, changelog.name, store)
        assert await restoration.complete() == changelog.end
    assert restoration.restored == 70
    assert contents(store) == changelog.table
    assert min(transport.fetched[changelog.name]) == 3_000


async def test_a_changelog_at_a_broker_of_an_earlier_version_is_restored(
    cluster: LocalCluster, open_store: OpenStore
) -> None:
    """As in a rolling upgrade whose applications come first. Where its epochs end is not known, and
    those who ask learn that at once."""
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(100)
    store, host = open_store(), replace(system_host(), transport=lambda _key: OfEarlierBrokers())
    async with asyncio.timeout(DEADLINE_S), Restorer(cluster.bootstrap, settings={}, host=host) as restorer:
        assert await restorer.begin(changelog.task, changelog.name, store).complete() == changelog.end
        assert await restorer.epoch_end(changelog.name, store.kept.leader_epoch) is None
    assert contents(store) == changelog.table
    async with asyncio.timeout(DEADLINE_S), Admin(cluster.bootstrap, host=host) as admin:
        (end,) = (await admin.list_epoch_ends({changelog.name: 0})).values()
    assert isinstance(end, CallUnknown) and "may be of an earlier version" in end.message


async def test_a_restoration_ended_before_it_has_a_position_is_never_read(
    cluster: LocalCluster, open_store: OpenStore
) -> None:
    """Nothing of it lies in the buffer in the way of others, and nothing looks into its closed store."""
    ended, other = await new_changelogs(cluster, 2)
    await ended.fill(100)
    await other.fill(100)
    transport = Watched()
    watched = replace(system_host(), transport=lambda _key: transport)
    async with Restorer(cluster.bootstrap, settings={}, host=watched) as restorer:
        for turns in (30, 3, 2, 1, 0):
            store = open_store()
            store.apply([], 1_000)
            restoration = restorer.begin(ended.task, ended.name, store)
            for _ in range(turns):
                await asyncio.sleep(0)
            await restoration.end()
            store.close()
        before = len(transport.fetched.get(ended.name, []))
        assert await restorer.begin(other.task, other.name, open_store()).complete() == 100
        for _ in range(5):
            await restorer.bounds(ended.name)
        assert len(transport.fetched.get(ended.name, [])) == before


async def test_others_have_the_loop_after_each_slice(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(60_000)
    restoration = restorer.begin(changelog.task, changelog.name, open_store())
    seen = [0]
    async with asyncio.TaskGroup() as tasks:
        completion = tasks.create_task(restoration.complete())
        while not completion.done():
            await asyncio.sleep(0)
            seen.append(restoration.restored)
    assert seen[-1] == 60_000
    assert max(later - earlier for earlier, later in pairwise(seen)) <= SLICE_RECORDS


async def test_a_learner_keeps_up_with_the_writer_until_it_takes_over(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    """Ready within the bound, reading on after it, complete once the owner is done (CORRECTNESS S1, S7)."""
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(20_000)
    store = open_store()
    done = False

    async def own() -> None:
        number = 0
        async with Producer(cluster.bootstrap) as producer:
            while not done:
                await changelog.write([(b"w%d" % (number % 500), b"%d" % number)] * 5, producer)
                number += 1

    async with asyncio.TaskGroup() as tasks:
        owner = tasks.create_task(own())
        restoration = restorer.begin(changelog.task, changelog.name, store)
        await restoration.within(1_000)
        ready_at = store.checkpoint
        assert ready_at >= 19_000
        await eventually(lambda: store.checkpoint > ready_at + 500, what="it continues")
        lag = restoration.lag
        assert lag is not None and lag <= 1_000
        done = True
        await owner
        assert await restoration.complete() == changelog.end == store.checkpoint
    assert contents(store) == changelog.table


async def test_a_restarted_restoration_applies_each_record_once(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    """Fetches of the earlier one are under way, or buffered, or half applied."""
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(40_000)
    store = open_store()
    restored, rounds = 0, 0
    while store.checkpoint < changelog.end:
        restoration = restorer.begin(changelog.task, changelog.name, store)
        rounds += 1
        goal = min(changelog.end, store.checkpoint + 1 + 997 * (rounds % 7))
        await eventually(lambda restoration=restoration, goal=goal: restoration.store.checkpoint >= goal)  # type: ignore[misc]
        await restoration.end()
        at = store.checkpoint
        for _ in range(rounds % 5):
            await asyncio.sleep(0)
        assert store.checkpoint == at
        restored += restoration.restored
    assert rounds > 2
    assert restored == changelog.end
    assert contents(store) == changelog.table


async def test_small_changelogs_do_not_wait_for_a_large_one(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    large, *small = await new_changelogs(cluster, 21)
    await large.fill(60_000, size=1_000)
    for changelog in small:
        await changelog.fill(500)
    great = restorer.begin(large.task, large.name, open_store())
    await eventually(lambda: great.restored)
    stores = [open_store() for _ in small]
    begun = [
        restorer.begin(changelog.task, changelog.name, store)
        for changelog, store in zip(small, stores, strict=True)
    ]
    async with asyncio.TaskGroup() as tasks:
        for restoration in begun:
            tasks.create_task(restoration.complete())
    assert great.restored < 60_000
    for changelog, store in zip(small, stores, strict=True):
        assert contents(store) == changelog.table
    assert await great.complete() == 60_000


async def test_records_without_a_key_are_passed_over(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    (changelog,) = await new_changelogs(cluster, config={"cleanup.policy": "delete"})
    topic, partition = changelog.name
    async with Producer(cluster.bootstrap) as producer:
        await changelog.write([(b"a", b"1")], producer)
        await producer.send_and_wait(topic, b"no key", partition=partition)
        await changelog.write([(b"b", b"2")], producer)
    store = open_store()
    assert await restorer.begin(changelog.task, changelog.name, store).complete() == 3
    assert contents(store) == {b"a": b"1", b"b": b"2"}
    assert "without a key" in caplog.text


async def test_a_store_that_is_ahead_of_its_changelog_is_restored_from_the_start(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(300)
    store = open_store()
    store.apply([(b"what was lost", b"1")], 1_000)
    assert await restorer.begin(changelog.task, changelog.name, store).complete() == 300
    assert contents(store) == changelog.table


async def test_a_changelog_that_is_made_again_while_it_is_read_is_another_one(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    """No member continues with data of both of them; a store of the one is not opened for the other."""
    (changelog,) = await new_changelogs(cluster)
    topic = changelog.name.topic
    await changelog.fill(400)
    identity = await restorer.identity(changelog.name)
    assert identity == await restorer.identity(changelog.name)
    assert identity.endswith("-0")
    store = open_store(identity=identity)
    restoration = restorer.begin(changelog.task, changelog.name, store)
    await restoration.within(0)
    async with Admin(cluster.bootstrap) as admin:
        await admin.delete_topics([topic])
    await eventually(lambda: remade(cluster, topic), deadline_s=30)
    again = Changelog(cluster.bootstrap, changelog.name)
    await again.fill(20)
    with pytest.raises(UnknownTopicOrPartition, match="another topic has its name"):
        await restoration.complete()
    await eventually(lambda: contents(store) == again.table, what="the new one's is restored")
    await eventually(lambda: restoration.lag == 0, what="the old one's end is forgotten")
    assert "restored from the start" in caplog.text
    await restoration.end()
    assert await restorer.identity(changelog.name) != identity


async def remade(cluster: LocalCluster, topic: str) -> bool:
    """False while the old one's deletion is unfinished."""
    try:
        await create_topic(cluster, topic, 1)
    except Exception as error:
        print(f"not yet: {error!r}")
        return False
    return True


def test_a_changelog_that_does_not_exist_is_reported(open_store: OpenStore) -> None:
    """On virtual time: a topic that is unknown may be new, so the restorer waits for seconds."""

    async def restore(cluster: SimulatedCluster) -> None:
        async with Restorer(cluster.bootstrap, settings={}, host=cluster.host) as restorer:
            nowhere = TopicPartition("no-such-changelog", 0)
            restoration = restorer.begin(TaskId("no-such", 0), nowhere, open_store())
            with pytest.raises(UnknownTopicOrPartition):
                await restoration.within(0)
            with pytest.raises(UnknownTopicOrPartition):
                await restorer.identity(nowhere)

    with SimulatedCluster(seed=1, brokers=1) as cluster:
        cluster.run(restore(cluster))


class FullDisk:
    """A store that takes nothing."""

    checkpoint = 0
    kept = NOTHING

    def apply(
        self,
        changes: Iterable[tuple[bytes, bytes | None]],
        checkpoint: int,
        leader_epoch: int = NO_EPOCH,
        as_of_ms: int | None = None,
    ) -> None:
        raise StorageFailed("no space left on device")

    def clear(self) -> None:
        raise AssertionError("it is empty")


async def test_a_store_that_fails_ends_its_restoration_and_no_other(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    first, second = await new_changelogs(cluster, 2)
    await first.fill(100)
    await second.fill(100)
    failing = restorer.begin(first.task, first.name, FullDisk())
    going = restorer.begin(second.task, second.name, open_store())
    with pytest.raises(StorageFailed):
        await failing.complete()
    with pytest.raises(StorageFailed):
        await failing.within(0)
    assert failing.lag is None
    assert await going.complete() == 100
    await restorer.begin(first.task, first.name, open_store()).complete()


async def test_a_changelog_is_restored_once_at_a_time(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    (changelog,) = await new_changelogs(cluster)
    restoration = restorer.begin(changelog.task, changelog.name, open_store())
    with pytest.raises(InvalidRequest, match="already"):
        restorer.begin(changelog.task, changelog.name, open_store())
    await restoration.end()
    await restorer.begin(changelog.task, changelog.name, open_store()).complete()


async def test_a_waiting_caller_is_notified_when_the_restorer_stops(
    cluster: LocalCluster, open_store: OpenStore
) -> None:
    (changelog,) = await new_changelogs(cluster)
    store = open_store()
    async with Restorer(cluster.bootstrap, settings={}) as restorer:
        restoration = restorer.begin(changelog.task, changelog.name, store)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(raised(restoration.within(-1)))
            await eventually(lambda: restoration.lag == 0)
            await restorer.stop()
        assert isinstance(waiting.result(), InvalidRequest)
    with pytest.raises(InvalidRequest, match="stopped"):
        restorer.begin(changelog.task, changelog.name, store)


@pytest.mark.slow
async def test_a_broker_that_is_killed_and_comes_back_is_waited_for(
    cluster: LocalCluster, restorer: Restorer, open_store: OpenStore
) -> None:
    """Nothing fails meanwhile, and nothing is applied twice or left out."""
    (changelog,) = await new_changelogs(cluster)
    await changelog.fill(30_000, size=1_000)
    store = open_store()
    restoration = restorer.begin(changelog.task, changelog.name, store)
    await eventually(lambda: restoration.restored)
    await cluster.kill_broker(1)
    assert 0 < restoration.restored < changelog.end
    async with asyncio.TaskGroup() as tasks:
        completion = tasks.create_task(restoration.complete())
        await cluster.start_broker(1)
    assert completion.result() == changelog.end
    assert restoration.restored == changelog.end
    assert contents(store) == changelog.table
