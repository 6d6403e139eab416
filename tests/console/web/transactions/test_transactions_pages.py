"""The pages of transactions, and what a topic shows of them, with a producer of confluent-kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka import Producer

from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.waiting import eventually

DEADLINE_S = 20.0


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1, kafka=True) as cluster:
        yield cluster


def write(cluster: MemoryCluster, transactional_id: str, topic: str = "") -> None:
    """A producer that has initialized and goes; with a topic it leaves an open transaction with a record."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(DEADLINE_S)
    if topic:
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.flush(DEADLINE_S)


async def test_transactions_are_listed_and_shown_with_their_partitions(
    cluster: MemoryCluster, changing: Browser
) -> None:
    assert "There are no transactional ids" in (await changing.get("/transactions")).words
    await cluster.create_topic("paid")
    await asyncio.to_thread(write, cluster, "idle")
    await asyncio.to_thread(write, cluster, "pay/ments", "paid")

    async def listed() -> bool:
        words = (await changing.get("/transactions?part=transactions")).words
        return "2 transactional ids: 1 none yet, 1 open" in words

    await eventually(listed, what="both are listed")
    page = await changing.get("/transactions?search=PAY&state=Ongoing")
    assert "1 of them match" in page.words and "idle" not in page.words
    assert 'href="/transactions/pay%2Fments"' in page.text
    assert "No transactional id matches" in (await changing.get("/transactions?search=zzz")).words
    page = await changing.get("/transactions/pay%2Fments")
    assert "Its transaction open" in page.words and "Timeout 10 min 0 s" in page.words
    assert "epoch 0" in page.words and "paid -0" in page.words
    assert "None: no transaction is open" in (await changing.get("/transactions?id=idle")).words

    async def on_topic() -> bool:
        return (
            "1 transaction open, the first for" in (await changing.get("/topics/paid?part=partitions")).words
        )

    await eventually(on_topic, what="the topic shows it")


async def test_an_unknown_id_is_not_found_and_bad_queries_are_refused(changing: Browser) -> None:
    missing = await changing.get("/transactions/nobody")
    assert missing.status == 404 and "All transactional ids" in missing.words
    for query in ("page=0", "state=Open", f"search={'a' * 1_025}", f"id={'a' * 1_025}"):
        answer = await changing.get(f"/transactions?{query}")
        assert answer.status == 400 and query.partition("=")[0] in answer.words


def transact(cluster: MemoryCluster, transactional_id: str, topic: str) -> None:
    """One transaction is committed, the next one aborted."""
    producer = Producer(
        {"bootstrap.servers": cluster.kafka_bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(DEADLINE_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.flush(DEADLINE_S)
        end(DEADLINE_S)


async def test_the_timeline_shows_the_transactions_of_one_id(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("booked")
    await asyncio.to_thread(transact, cluster, "book", "booked")
    nothing = (await changing.get("/api/timeline?rows=transaction")).json
    assert nothing["rows"] == [] and "name one transactional id" in nothing["feeds"][0]["state"]

    async def lanes() -> dict[str, list[dict[str, Any]]]:
        answer = await changing.get("/api/timeline?rows=transaction&transaction=book")
        assert answer.status == 200, answer.text
        return {lane["kind"]: lane["items"] for row in answer.json["rows"] for lane in row["lanes"]}

    async def ended() -> list[str]:
        items = (await lanes()).get("marks", [])
        kinds = [each["kind"] for item in items for each in item.get("parts", [item])]
        return kinds if len(kinds) == 2 else []

    assert await eventually(ended, what="both ends are shown") == ["committed", "aborted"]
    mark = (await lanes())["marks"][0]
    name = mark["event"] or mark["parts"][0]["event"]
    said = await changing.get(f"/api/timeline/event/{name}")
    assert said.json["sentence"] == "A transaction of book is committed, in all of its partitions."
    assert (await changing.get("/api/timeline/event/transaction/0/999999")).status == 404
    page = await changing.get("/transactions/book")
    assert "/timeline?rows=transaction&amp;follow=1&amp;transaction=book" in page.text
