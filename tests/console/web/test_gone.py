"""Pages that are open while their topic or group is deleted get the words that are shown in its place."""

from __future__ import annotations

import asyncio
import json

from strandline.ids import TopicPartition
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.test_topics import opened
from tests.waiting import eventually

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
