"""Pages that are open while their topic or group is deleted get the words that are shown in its place."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from html import unescape

import pytest

from strandline import Admin
from strandline.console.records.pages import log_of
from strandline.console.records.searching import SLICE_BYTES_MAX
from strandline.console.web.app import application
from strandline.errors import UnknownTopicOrPartition
from strandline.ids import NO_TOPIC_ID, TopicPartition
from strandline.testing import MemoryCluster
from strandline.vocabulary.metadata import ClusterMetadata
from tests.console.web.browser import Answer, Browser
from tests.console.web.consoles import console_of
from tests.console.web.test_topics import opened
from tests.waiting import eventually

LARGE = bytes(500_000)
SELDOM_MS = 60_000
SINCE = 'It has been gone since <time datetime="20'


async def test_the_part_of_a_deleted_topic_says_since_when_it_is_gone(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("pair")
    part = "/topics/pair?part=partitions"
    assert "all in sync" in (await changing.get(part)).words
    async with cluster.admin() as admin:
        await admin.delete_topics(["pair"])
        said = await opened(changing, part, "It has been gone since")
        assert said.status == 404 and "<html" not in said.text
        assert "&#39;pair&#39; does not exist" in said.words and SINCE in said.text
        assert 'href="/topics">All topics' in said.text
        assert "<html" in (await changing.get("/topics/pair/0/records")).text
        assert SINCE not in (await changing.get("/topics/never?part=partitions")).text
        await admin.create_topic("pair")
    again = await opened(changing, part, "all in sync")
    assert again.status == 200
    assert SINCE not in (await changing.get("/topics/pair/7/records")).text, "it is there"


async def test_a_tail_of_a_deleted_topic_ends_with_these_words(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("followed")
    body, leave = bytearray(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(changing.follow("/topics/followed/0/tail?first=0", body, leave))
        await eventually(lambda: b"nothing new" in body, what="it is followed")
        async with cluster.admin() as admin:
            await admin.delete_topics(["followed"])
        await eventually(lambda: b"data: " in body, what="the tail says that the topic is gone")
        leave.set()
    said = json.loads(bytes(body).split(b"data: ")[1].split(b"\n")[0])
    assert said["gone"] is True and "followed" in said["ended"] and "All topics" in said["ended"]


async def test_a_tail_learns_that_its_topic_is_gone_also_while_no_event_says_so() -> None:
    """Two of three brokers are away: state changes cannot be written, and everything is read seldom."""
    async with MemoryCluster(brokers=3) as cluster, cluster.admin() as admin:
        await cluster.create_topic("alone", replication_factor=1)
        async with console_of(cluster, refresh_ms=SELDOM_MS) as console:
            body, leave = bytearray(), asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                browser = Browser(application(console))
                tasks.create_task(browser.follow("/topics/alone/0/tail?first=0", body, leave))
                await eventually(lambda: b"nothing new" in body, what="it is followed")
                for broker in set(cluster.broker_ids) - {cluster.leader("alone")}:
                    cluster.kill(broker)
                await admin.delete_topics(["alone"])
                await eventually(lambda: b"data: " in body, deadline_s=20, what="the tail says so")
                leave.set()
    assert b"'alone' does not exist" in unescape(body.decode()).encode() and b'"gone":true' in body
    assert SINCE.encode() not in body.replace(b"\\", b""), "no event said so"


class Belated(Admin):
    """What it reads of topics is old when it returns: they have been deleted meanwhile."""

    async def metadata(self, topics: Sequence[str] | None = None) -> ClusterMetadata:
        found = await super().metadata(topics)
        await self.delete_topics([each.name for each in found.topics])
        return found


async def test_a_log_whose_topic_is_deleted_while_it_is_looked_up_is_gone(cluster: MemoryCluster) -> None:
    """Its leader has no replica any longer, as if another broker led it."""
    await cluster.create_topic("brief")
    async with Belated(cluster.bootstrap, host=cluster.host) as admin:
        with pytest.raises(UnknownTopicOrPartition, match="topic 'brief' does not exist"):
            await log_of(admin, TopicPartition("brief", 0), NO_TOPIC_ID)


async def test_a_link_to_records_is_of_the_topic_that_it_was_shown_for(
    cluster: MemoryCluster, changing: Browser
) -> None:
    """Offsets of a topic that was deleted mean nothing in the one that has its name now."""
    await made(cluster, "links", 300)
    page = await changing.get("/topics/links/0/records?from=offset&at=100&count=20")
    record = await changing.get(linked(page, "/0/records/110"))
    few = await changing.get("/topics/links/0/search?text=29")
    async with cluster.producer(compression="zstd") as producer:
        for _ in range(1 + SLICE_BYTES_MAX // len(LARGE)):
            await producer.send_and_wait("links", LARGE)
    many = await changing.get("/topics/links/0/search?text=29")
    links = [
        *(linked(page, part) for part in ("?from=offset&at=80", "?from=offset&at=120", "/0/records/110")),
        *(
            linked(page, part)
            for part in ("/export?from=offset&at=100&until", "/export?from=offset&at=100&t")
        ),
        *(linked(record, part) for part in ("?from=offset&at=110", "/110/value")),
        linked(few, "/0/records/299"),
        linked(many, "/search?text=29&"),
    ]
    assert [(await changing.get(each)).status for each in links] == len(links) * [200]
    tail = linked(page, "/tail?first=120")
    async with cluster.admin() as admin:
        await admin.delete_topics(["links"])
    await made(cluster, "links", 400)
    for each in links:
        said = await changing.get(each)
        assert said.status == 404, each
        assert "a topic &#39;links&#39; that was deleted; another one has its name now" in said.text
        assert 'href="/topics/links/0/records?from=earliest">The records of the present topic' in said.text
    ended = bytearray()
    await changing.follow(tail, ended, asyncio.Event())
    assert b"that was deleted" in ended and b'"gone":true' in ended and b"tr>" not in ended


async def test_a_tail_shows_no_record_of_the_next_topic(cluster: MemoryCluster, changing: Browser) -> None:
    """It is made anew with records at once."""
    await made(cluster, "next", 2)
    body, leave = bytearray(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(changing.follow("/topics/next/0/tail?first=0", body, leave))
        await eventually(lambda: b"nothing new" in body, what="it is followed")
        async with cluster.admin() as admin:
            await admin.delete_topics(["next"])
        await made(cluster, "next", 9)
        await eventually(lambda: b'"ended"' in body, what="the tail says that its topic is gone")
        leave.set()
    assert body.count(b'"html"') == 1 and b"another one has its name now" in body


async def made(cluster: MemoryCluster, topic: str, records: int) -> None:
    """A topic, whose records have their offsets as values."""
    await cluster.create_topic(topic)
    async with cluster.producer() as producer:
        sent = [await producer.send(topic, b"%d" % number) for number in range(records)]
        await sent[-1]


def linked(page: Answer, part: str) -> str:
    """The address of a page that has this part in it."""
    links = [unescape(each) for each in re.findall(r'(?:href|data-tail)="([^"]*)"', page.text)]
    (found,) = {each for each in links if part in each}
    return found


async def test_the_part_of_a_deleted_group_says_since_when_it_is_gone(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("read")
    async with cluster.admin() as admin:
        await admin.alter_group_offsets("readers", {TopicPartition("read", 0): 0})
        assert (await changing.get("/groups/readers?part=now")).status == 200
        await admin.delete_group("readers")
    said = await opened(changing, "/groups/readers?part=now", "It has been gone since")
    assert said.status == 404 and SINCE in said.text and 'href="/groups">All groups' in said.text
    assert SINCE not in (await changing.get("/groups/never?part=now")).text
