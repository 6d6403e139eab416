"""Changes by the pages: planned, shown, done once, and found in `__state_changes`."""

from __future__ import annotations

import pytest

from strandline.console.changes.change import Change
from strandline.console.changes.replicas import Reassign
from strandline.console.changes.topics import AlterTopic, DeleteTopic, GrowTopic
from strandline.console.clients import Clients
from strandline.errors import UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.testing import MemoryCluster
from tests.console.web.browser import FORM, Browser
from tests.console.web.changes import done, hidden, planned
from tests.console.web.consoles import browser_of
from tests.waiting import eventually

NEW = {"name": "orders", "partitions": 3, "replication_factor": 1}


async def test_a_topic_is_created_once_its_effect_was_shown(
    cluster: MemoryCluster, changing: Browser
) -> None:
    page = await planned(changing, "create-topic", {**NEW, "config": "retention.ms=86400000"})
    assert "gets 3 partitions with 1 replica each" in page.words
    assert "86400000 (1 d 0 h)" in page.words and "604800000 (7 d 0 h)" in page.words
    assert "if its disk is lost" in page.words
    async with cluster.admin() as admin:
        assert "orders" not in await admin.list_topics()
        outcome = await done(changing, page)
        assert "Topic orders is created" in outcome.words
        assert '"/timeline?rows=partition&amp;from=' in outcome.text and "topic=orders" in outcome.text
        (topic,) = await admin.describe_topics(["orders"])
        assert len(topic.partitions) == 3 and topic.config == {"retention.ms": "86400000"}

        async def recorded() -> bool:
            return {event.topic async for event in admin.state_changes(topic="orders")} == {"orders"}

        await eventually(recorded, what="it is in __state_changes")
        again = await done(changing, page)
        assert again.text.partition("<main")[2] == outcome.text.partition("<main")[2]
        await admin.delete_topics(["orders"])


async def test_a_change_is_refused_by_the_server_without_leave(cluster: MemoryCluster) -> None:
    async with browser_of(cluster) as browser:
        for path in ("/changes/create-topic/plan", "/changes/do"):
            answer = await browser.post(path, {**NEW, "plan": "a", "seen": "b"})
            assert answer.status == 403 and "--allow-changes" in answer.words
            bare = await browser.send("POST", path, b"", headers={"content_type": FORM})
            assert bare.status == 403 and "--allow-changes" in bare.words, "not: the form is too old"
        assert (await browser.get("/changes/a")).status == 403
        assert "Create a topic" not in (await browser.get("/topics")).words


async def test_a_refusal_is_shown_in_the_words_of_the_cluster(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("there")
    refused: dict[str, tuple[dict[str, object], str]] = {
        "create-topic": ({**NEW, "name": "there"}, " exists"),
        "alter-topic": (
            {"topic": "there", "name": "retention.ms", "value": "soon"},
            "retention.ms=&#39;soon&#39;",
        ),
        "grow-topic": ({"topic": "there", "partitions": 1}, "has 1 partition:"),
        "delete-topic": ({"topic": "nowhere"}, "nowhere"),
    }
    for kind, (fields, words) in refused.items():
        answer = await changing.post(f"/changes/{kind}/plan", fields)
        assert answer.status in (400, 404) and words in answer.text, (kind, answer.words)


async def test_a_change_whose_facts_have_changed_is_shown_anew_and_not_done(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("grows")
    page = await planned(changing, "grow-topic", {"topic": "grows", "partitions": 4})
    assert "has 1 partition, and gets partitions 1 to 3" in page.words
    async with cluster.admin() as admin:
        await admin.alter_topic("grows", partitions=2)

        async def partitions() -> int:
            return len((await admin.describe_topics(["grows"]))[0].partitions)

        async def is_known() -> bool:
            return await partitions() == 2

        await eventually(is_known, what="brokers know the new partition")
        anew = await done(changing, page)
        assert (
            "Nothing was done" in anew.words and "has 2 partitions, and gets partitions 2 to 3" in anew.words
        )
        assert await partitions() == 2
        stale = await changing.post("/changes/do", hidden(page))
        assert stale.status == 303 and await partitions() == 2, "a second click on the old page does nothing"
        assert "Topic grows has 4 partitions" in (await done(changing, anew)).words


async def test_what_cannot_be_undone_is_typed(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("gone")
    page = await planned(changing, "delete-topic", {"topic": "gone"})
    assert "Type gone to confirm" in page.words and "cannot be undone" in page.words
    wrong = await changing.post("/changes/do", {**hidden(page), "typed": "gon"})
    assert wrong.status == 400 and "to confirm this change" in wrong.words
    assert "Type gone to confirm" in wrong.words, "the form is there to try again"
    assert "Topic gone is deleted" in (await done(changing, wrong, typed="gone")).words


async def test_a_plan_belongs_to_the_browser_that_made_it(changing: Browser) -> None:
    answer = await changing.post("/changes/create-topic/plan", {**NEW, "name": "mine"})
    page = await changing.get(answer.headers["location"])
    other = Browser(changing.application)
    assert (await other.get(answer.headers["location"])).status == 404
    assert (await other.post("/changes/do", hidden(page))).status == 404
    assert "Nothing is done yet" in (await changing.get(answer.headers["location"])).words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "name is missing"),
        ({**NEW, "partitions": "many"}, "partitions = &#39;many&#39;"),
        ({**NEW, "partitions": 10_001}, "1 to 10000"),
        ({**NEW, "replication_factor": 0}, "1 to 100"),
        ({**NEW, "name": "<script>"}, "&lt;script&gt;"),
        ({**NEW, "config": "retention.ms"}, "give name=value"),
        ({**NEW, "config": "a=1\na=2"}, "given twice"),
        ({**NEW, "config": "no.such=1"}, "unknown topic config"),
        ({**NEW, "replication_factor": 4}, "4"),
    ],
)
async def test_bad_values_are_named(changing: Browser, fields: dict[str, object], words: str) -> None:
    answer = await changing.post("/changes/create-topic/plan", fields)
    assert answer.status == 400 and words in answer.text and "<script>" not in answer.text


async def test_unknown_changes_are_not_found(changing: Browser) -> None:
    assert (await changing.post("/changes/no-such/plan", NEW)).status == 404
    assert (await changing.get("/changes/abc")).status == 404
    assert (await changing.get("/changes/do")).status in (404, 405)


ANEW = "anew"
OF_ONE_TOPIC: list[Change] = [
    AlterTopic(ANEW, {"retention.ms": "7000"}, ()),
    GrowTopic(ANEW, 4),
    DeleteTopic(ANEW),
    Reassign(TopicPartition(ANEW, 0), (1, 2, 3), 0, None),
]


@pytest.mark.parametrize("change", OF_ONE_TOPIC, ids=[type(change).__name__ for change in OF_ONE_TOPIC])
async def test_a_change_is_made_to_the_topic_that_was_shown(cluster: MemoryCluster, change: Change) -> None:
    """And not to another one that has its name by the time that it is confirmed."""
    async with cluster.admin() as admin:
        clients = Clients(admin, cluster.consumer, cluster.producer, "here")
        await admin.create_topic(ANEW)
        effect = await change.plan(clients)
        await admin.delete_topics([ANEW])
        made = await admin.create_topic(ANEW)
        with pytest.raises(UnknownTopicOrPartition, match="is another one by now"):
            await change.do(clients, effect)
        (topic,) = (await admin.metadata([ANEW])).topics
        assert (topic.topic_id, topic.config, len(topic.partitions)) == (made, {}, 1)
        assert not await admin.list_reassignments()
        await change.do(clients, await change.plan(clients))
        if not isinstance(change, DeleteTopic):
            await admin.delete_topics([ANEW])
