"""What the timeline says of a real cluster, and what it answers to garbage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from strandline.console.core.timeline.journal import Record
from strandline.console.core.timeline.places import Source
from strandline.console.web.app import application
from strandline.console.web.context import Console
from strandline.testing import MemoryCluster
from tests.console.web.browser import Answer, Browser
from tests.console.web.consoles import console_of
from tests.waiting import eventually


class Timeline:
    """A cluster, and the API of a console beside it."""

    def __init__(self, cluster: MemoryCluster, console: Console) -> None:
        self.cluster = cluster
        self.console = console
        self.browser = Browser(application(console))

    async def get(self, **asked: Any) -> Answer:
        return await self.browser.get(f"/api/timeline?{urlencode(asked, doseq=True)}")

    async def rows(self, **asked: Any) -> list[dict[str, Any]]:
        answer = await self.get(**asked)
        assert answer.status == 200, answer.text
        rows: list[dict[str, Any]] = answer.json["rows"]
        return rows

    async def lane(self, kind: str, **asked: Any) -> list[dict[str, Any]]:
        """The items of a lane of the first row; none while there is no such row or lane."""
        lanes = [lane for row in (await self.rows(**asked))[:1] for lane in row["lanes"]]
        return next((lane["items"] for lane in lanes if lane["kind"] == kind), [])

    async def event(self, name: str) -> Any:
        answer = await self.browser.get(f"/api/timeline/event/{name}")
        assert answer.status == 200, answer.text
        return answer.json


@pytest.fixture
async def timeline() -> AsyncIterator[Timeline]:
    """A cluster of its own, for a test that breaks it."""
    async with timeline_of(3) as made:
        yield made


@pytest.fixture(scope="module")
async def quiet() -> AsyncIterator[Timeline]:
    """A cluster in which nothing happens now."""
    async with timeline_of(1) as made:
        yield made


@asynccontextmanager
async def timeline_of(brokers: int) -> AsyncIterator[Timeline]:
    async with MemoryCluster(brokers=brokers) as cluster:
        await cluster.create_topic("orders", partitions=2, replication_factor=brokers)
        async with console_of(cluster) as console:
            yield Timeline(cluster, console)


async def test_a_killed_leader_is_followed_by_another_with_the_cause(timeline: Timeline) -> None:
    led = timeline.cluster.leader("orders", 1)

    async def leaders() -> list[dict[str, Any]]:
        return await timeline.lane("leader", topic="orders", partition=1)

    async def first() -> bool:
        return [each["broker"] for each in await leaders()] == [led]

    async def another() -> bool:
        last = (await leaders())[-1]
        return last["broker"] not in (led, -1) and last["event"] is not None

    await eventually(first)
    await eventually(lambda: timeline.lane("alive", rows="broker", broker=led))
    timeline.cluster.kill(led)
    await eventually(another)
    *_, before, now = await leaders()
    assert (before["broker"], before["until"]) == (led, now["from"])
    assert now["until"] is None and now["epoch"] > before["epoch"]
    said = await timeline.event(now["event"])
    assert said["sentence"] == (
        f"Broker {now['broker']} leads orders-1 at epoch {now['epoch']}: broker {led} does not answer."
    )
    assert said["before"]["leader"] == led and said["after"]["leader"] == now["broker"]
    assert said["record"]["topic"] == "__state_changes"
    assert said["fields"]["command"] == "elect-leader"
    assert before["event"] in [each["id"] for each in said["related"]]

    async def gone() -> bool:
        return (await timeline.lane("alive", rows="broker", broker=led))[-1]["alive"] is False

    await eventually(gone)
    seen = await timeline.event((await timeline.lane("alive", rows="broker", broker=led))[-1]["event"])
    assert seen["sentence"] == f"Broker {led} is gone: its session in ZooKeeper has ended."
    assert now["event"] in [each["id"] for each in seen["related"]]


async def test_a_topic_that_is_deleted_and_created_anew_is_two_on_the_timeline(timeline: Timeline) -> None:
    cluster, asked = timeline.cluster, {"topic": "orders", "partition": 1}

    async def marked() -> bool:
        kinds = [each["kind"] for each in await timeline.lane("marks", **asked)]
        return kinds == ["created", "deleted", "created"]

    async def leaders() -> list[dict[str, Any]]:
        return [each for each in await timeline.lane("leader", **asked) if each["event"] is not None]

    await eventually(leaders)
    async with cluster.admin() as admin:
        ids = [(await admin.describe_topics(["orders"]))[0].topic_id]
        await admin.delete_topics(["orders"])
        await cluster.create_topic("orders", partitions=2)
        ids.append((await admin.describe_topics(["orders"]))[0].topic_id)
    await eventually(marked)

    async def two() -> bool:
        return len(await leaders()) == 2

    await eventually(two)
    old, new = await leaders()
    created, deleted, created_anew = await timeline.lane("marks", **asked)
    assert created["at"] <= old["from"] < old["until"] == deleted["at"] <= created_anew["at"] <= new["from"]
    assert new["until"] is None
    for mark, topic_id in ((created, ids[0]), (deleted, ids[0]), (created_anew, ids[1])):
        said = await timeline.event(mark["event"])
        assert said["sentence"].startswith(f"orders-1 was {mark['kind']} (topic id {topic_id})")
    assert (await timeline.event(new["event"]))["before"] == {}


async def test_a_group_that_rebalances_says_who_was_given_and_lost_what(timeline: Timeline) -> None:
    cluster = timeline.cluster

    async def owned() -> dict[str, list[str]]:
        lanes = [each for row in await timeline.rows(rows="group", group="billing") for each in row["lanes"]]
        return {
            lane["member"]: [item["partitions"] for item in lane["items"]]
            for lane in lanes
            if lane["kind"] == "owned"
        }

    async def both() -> bool:
        now = await owned()
        return len(now) == 2 and {parts[-1] for parts in now.values()} == {"orders:0", "orders:1"}

    async with cluster.consumer(group_id="billing") as one:
        one.subscribe(["orders"])
        await one.getmany(timeout_ms=100)
        await eventually(owned)
        before_ms = timeline.console.clock.wall_ms()
        async with cluster.consumer(group_id="billing") as other:
            other.subscribe(["orders"])

            async def read() -> bool:
                await one.getmany(timeout_ms=20)
                await other.getmany(timeout_ms=20)
                return await both()

            await eventually(read)
            near = {"from": before_ms, "width": 4_000}  # so near that nothing is merged
            phases = await timeline.lane("generation", rows="group", group="billing", **near)
    later = [each for each in phases if each["state"] == "rebalancing"]
    told = [await timeline.event(each["event"]) for each in later]
    assert [parts for parts in told[0]["before"]["members"].values() if parts != "-"] == ["orders:0-1"]
    assert sorted(told[-1]["after"]["members"].values()) == ["orders:0", "orders:1"]
    for phase, said in zip(later, told, strict=True):
        assert phase["reason"] and phase["reason"] in said["sentence"]


async def test_an_offset_that_is_looked_at_is_drawn(timeline: Timeline) -> None:
    async with timeline.cluster.producer() as producer:
        await producer.send_and_wait("orders", b"x", partition=0)

    async def watermarks() -> list[list[int]]:
        rows = await timeline.rows(topic="orders", partition=0, kind="offsets")
        return [point for row in rows for lane in row["lanes"] for point in lane["hw"]]

    assert (await eventually(watermarks))[-1][1] == 1


async def test_a_page_of_rows_is_drawn_and_the_others_are_counted(timeline: Timeline) -> None:
    await eventually(lambda: timeline.rows(topic="orders"))
    answer = (await timeline.get(rows="partition", topic="orders", first=1, count=1)).json
    assert (answer["rows_total"], answer["first"]) == (2, 1)
    assert [row["name"] for row in answer["rows"]] == ["orders-1"]
    assert [row["name"] for row in await timeline.rows(text="ORDERS-0")] == ["orders-0"]
    assert await timeline.rows(topic="nothing") == []
    await eventually(lambda: timeline.rows(topic="orders", changed=1))
    assert await timeline.rows(topic="orders", changed=1, until=1_000) == []

    async def kinds() -> list[str]:
        (row, *_) = await timeline.rows(topic="orders", kind="isr")
        return [lane["kind"] for lane in row["lanes"]]

    assert await eventually(kinds, what="the first ISR") == ["isr"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"rows": "topics"}, "rows = 'topics': one of partition"),
        ({"from": "x"}, "from = 'x': a whole number"),
        ({"from": 10, "until": 10}, "from = 10 is not before until = 10"),
        ({"until": 2**53 + 1}, "until = '9007199254740993'"),
        ({"width": 0}, "width = '0': a whole number from 1 to 4000"),
        ({"width": 10**9}, "width"),
        ({"count": 201}, "count = '201'"),
        ({"first": -1}, "first = '-1'"),
        ({"kind": ["leader", "colour"]}, "kind = 'colour': some of leader"),
        ({"broker": "two"}, "broker = 'two'"),
        ({"topic": "t" * 301}, "topic"),
        ({"text": "t" * 301}, "text"),
    ],
)
async def test_a_bad_value_is_named(quiet: Timeline, asked: dict[str, Any], message: str) -> None:
    answer = await quiet.get(**asked)
    assert answer.status == 400 and message in answer.json["error"]


@pytest.mark.parametrize(
    "name", ["state/0", "state/0/x", "state/-1/2", "log/0/1", "seen/1/2", "state/0/1/2", "%00"]
)
async def test_an_id_that_is_none_is_refused(quiet: Timeline, name: str) -> None:
    assert (await quiet.browser.get(f"/api/timeline/event/{name}")).status == 400


@pytest.mark.parametrize("name", ["state/0/99999999", "group/0/0", "state/9/0", "seen/5"])
async def test_an_event_that_is_not_there_is_not_found(quiet: Timeline, name: str) -> None:
    assert (await quiet.browser.get(f"/api/timeline/event/{name}")).status == 404


async def test_texts_and_numbers_that_json_does_not_have_are_only_text(quiet: Timeline) -> None:
    value = (
        '{"version":1,"event":"task_progress","group":"<b>\\ud800","generation":1,"at_ms":%d,"member":"\\u202em",'
        '"task":"</script>","lag":NaN,"records_per_s":Infinity,"more":[-Infinity]}'
    )
    window, now_ms = quiet.console.timeline.window, quiet.console.clock.wall_ms() - 1_000
    record = Record(7, now_ms, (value % now_ms).encode())
    window.read(Source.GROUP, 3, [record], now_ms)
    (task,) = await quiet.rows(rows="task", text="script")
    assert task["id"] == "task/<b>\ud800/</script>"
    assert [lane["items"][0]["lag"] for lane in task["lanes"]] == [-1]
    said = await quiet.event("group/3/7")
    assert said["sentence"] == "Member \u202em restored more of </script>."
    assert said["fields"]["lag"] == "NaN" and said["fields"]["more"] == ["-Infinity"]
