"""Moves of replicas by the pages: reassigned, throttled, cancelled, balanced, drained."""

from __future__ import annotations

from strandline.ids import TopicPartition
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.changes import done, done_at_last, planned
from tests.console.web.test_topics import opened
from tests.waiting import eventually


async def test_a_partition_moves_and_the_move_is_recorded(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("moved", replication_factor=1)
    (before,) = cluster.replicas("moved", 0)
    target = next(each for each in cluster.broker_ids if each != before)
    fields = {"topic": "moved", "partition": 0, "replicas": f"{target}", "throttle": 1_000_000}
    page = await planned(changing, "reassign", fields)
    assert f"moved-0 has replicas {before}, and gets {target}" in page.words
    assert f"Broker {target} copies it" in page.words and "at most 1.0 MB a second" in page.words
    assert f"broker {before} deletes its replica" in page.words
    outcome = await done(changing, page)
    assert f"moved-0 moves to brokers {target}" in outcome.words and "partition=0" in outcome.text
    await eventually(lambda: cluster.replicas("moved", 0) == [target], what="the replica has moved")
    async with cluster.admin() as admin:

        async def recorded() -> bool:
            kinds = [each.command.value async for each in admin.state_changes(topic="moved")]
            return "reassign-replicas" in kinds

        await eventually(recorded, what="the move is in __state_changes")

    async def is_refused() -> bool:
        again = await changing.post("/changes/reassign/plan", fields)
        return again.status == 400 and "already" in again.words

    await eventually(is_refused, what="a move to where the partition is by now is refused")


async def test_a_move_under_way_is_shown_throttled_and_cancelled(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("slow", replication_factor=1)
    (before,) = cluster.replicas("slow", 0)
    target = next(each for each in cluster.broker_ids if each != before)
    async with cluster.producer() as producer:
        for _ in range(20):
            await (await producer.send("slow", b"v" * 100_000))
    name = TopicPartition("slow", 0)
    async with cluster.admin() as admin:
        await admin.reassign({name: [target]}, throttle_bytes_per_s=1)
        page = await changing.get("/moves")
        assert "slow-0" in page.words and "1 B/s" in page.words and "No replica moves" not in page.words
        assert "unknown/s" not in page.words, "no rate is known at first"
        assert "Cancel…" in page.words and "<progress" in (await opened(changing, "/moves", "kB")).text
        assert "slow-0" not in (await changing.get("/moves?topic=other&part=moves")).words
        page = await planned(changing, "throttle-moves", {"topic": "slow", "partition": 0, "throttle": 2})
        assert "slow-0 1 B/s" in page.words
        assert "throttle of 1 move is changed" in (await done(changing, page)).words
        (move,) = await admin.list_reassignments()
        assert move.throttle_bytes_per_s == 2
        page = await planned(changing, "cancel-moves", {"topic": "slow"})
        assert f"slow-0 {target} {before}" in page.words
        assert "1 move cancelled: slow-0" in (await done(changing, page)).words

        async def is_over() -> bool:
            return not await admin.list_reassignments()

        await eventually(is_over, what="the move is taken back")
    assert cluster.replicas("slow", 0) == [before]
    answer = await changing.post("/changes/cancel-moves/plan", {"topic": "slow"})
    assert answer.status == 400 and "no such move is under way" in answer.words


async def test_a_broker_is_drained_and_the_drain_is_ended(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("drained", partitions=6)
    broker = cluster.broker_ids[0]
    page = await planned(changing, "drain-broker", {"broker": broker})
    assert f"Broker {broker} leads" in page.words and "drained" in page.words
    outcome = await done_at_last(changing, page)
    assert f"Broker {broker} is drained" in outcome.words and f"broker={broker}" in outcome.text
    await opened(changing, "/moves", "alive drained")
    page = await planned(changing, "undrain-broker", {"broker": broker})
    assert "is ended" in (await done(changing, page)).words
    assert (await changing.post("/changes/undrain-broker/plan", {"broker": broker})).status == 400
    assert (await changing.post("/changes/drain-broker/plan", {"broker": 77})).status == 400


async def test_preferred_leaders_are_elected(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("preferred", partitions=3)
    async with cluster.admin() as admin:

        async def preferred() -> list[bool]:
            (topic,) = (await admin.metadata(["preferred"])).topics
            return [each.leader == each.replicas[0] for each in topic.partitions]

        first = cluster.leader("preferred", 0)
        cluster.kill(first)
        await cluster.run_until(lambda: cluster.leader("preferred", 0) != first)
        cluster.start(first)
        await cluster.run_until(lambda: len(cluster.in_sync("preferred", 0)) == 3)

        async def is_other() -> bool:
            return not all(await preferred())

        await eventually(is_other, what="another broker leads")
        page = await planned(changing, "elect-preferred", {"topic": "preferred"})
        assert "The first replica of each of these partitions becomes its leader" in page.words
        outcome = await done(changing, page)
        assert "The preferred leaders of topic preferred lead" in outcome.words, outcome.words


async def test_a_balance_shows_its_moves_first(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("uneven", partitions=4, replication_factor=1)
    async with cluster.admin() as admin:
        one = cluster.broker_ids[0]
        await admin.reassign({TopicPartition("uneven", number): [one] for number in range(4)})

        async def is_over() -> bool:
            return not await admin.list_reassignments()

        await eventually(is_over, what="all are on one broker")
        page = await planned(changing, "balance", {"topics": "uneven"})
        assert "Balance:" in page.words and "uneven-" in page.words and f"{one} 4 →" in page.words
        assert "The balance has begun" in (await done(changing, page)).words

        async def is_complete() -> bool:
            return (await admin.describe_balance()).state.value == "completed"

        await eventually(is_complete, what="the balance is complete")
        assert "completed" in (await changing.get("/moves")).words
        answer = await changing.post("/changes/alter-balance/plan", {"action": "pause"})
        assert answer.status == 400 and "no balance is under way" in answer.words
        answer = await changing.post("/changes/balance/plan", {"topics": "uneven"})
        assert answer.status == 400 and "evenly already" in answer.words
