"""The pages of records: parts of a partition, one record, searches, exports, the live tail, and sending."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest

from strandline import ConsumerRecord
from strandline.report.text.records import record_json
from strandline.testing import MemoryCluster
from tests.console.web.browser import Browser
from tests.console.web.changes import done, planned
from tests.waiting import eventually

HOSTILE = b"<script>alert(1)</script>\x1b[2J\xe2\x80\xae\x07"
BROKEN = b"\xff\xfe\x00<b>"


@pytest.fixture(scope="module", name="topic")
async def _topic(cluster: MemoryCluster) -> AsyncIterator[str]:
    """Partition 0 has 120 records, one a second from second 1,000 on; partition 1 has hostile ones."""
    await cluster.create_topic("orders", partitions=2)
    async with cluster.producer() as producer:
        for number in range(120):
            await producer.send_and_wait(
                "orders",
                json.dumps({"number": number}).encode(),
                f"k{number}".encode(),
                partition=0,
                timestamp_ms=1_000_000 + 1_000 * number,
                headers=[("trace", b"abc")],
            )
        for value in (HOSTILE, BROKEN, None, b"", b"v" * 1024 * 300, b"\x00" * 100):
            await producer.send_and_wait("orders", value, HOSTILE, partition=1, headers=[("<i>", BROKEN)])
    yield "orders"


async def test_records_from_an_offset_a_time_the_start_and_the_end(changing: Browser, topic: str) -> None:
    base = f"/topics/{topic}/0/records"
    firsts = {
        "": 70,
        "?from=earliest": 0,
        "?from=offset&at=17": 17,
        "?from=time&at=1970-01-01T00:16:50": 10,
        "?from=time&at=1970-01-01T01:16:50%2B01:00": 10,
        "?from=end&count=5": 115,
    }
    for query, first in firsts.items():
        page = await changing.get(base + query)
        assert page.status == 200, page.words
        assert f"{base}/{first}?as=auto" in page.text and f"{base}/{first - 1}?as=auto" not in page.text, (
            query
        )
        last = min(first + (5 if "count" in query else 50), 120) - 1
        assert f"{base}/{last}?as=auto" in page.text and f"{base}/{last + 1}?as=auto" not in page.text
    page = await changing.get(f"{base}?from=offset&at=3&count=1")
    assert "&#34;number&#34;: 3" in page.text and "k3" in page.words and "trace" in page.words
    assert "1970-01-01T00:16:43.000Z" in page.text
    hexed = await changing.get(f"{base}?from=offset&at=3&count=1&as=hex")
    assert "00000000 6b 33" in hexed.words


async def test_what_is_not_there_is_said_in_words(changing: Browser, topic: str) -> None:
    base = f"/topics/{topic}/0/records"
    beyond = await changing.get(f"{base}?from=offset&at=500")
    assert "no record at offset 500 yet: the next one gets 120" in beyond.words
    assert "No record is that recent" in (await changing.get(f"{base}?from=time&at=2030-01-01")).words
    one = await changing.get(f"{base}/500")
    assert one.status == 404 and "no record at offset 500 yet" in one.words
    assert (await changing.get(f"/topics/{topic}/7/records")).status == 404
    assert (await changing.get("/topics/nowhere/0/records")).status == 404


@pytest.mark.parametrize(
    "query",
    [
        "from=offset&at=-1",
        "from=offset&at=many",
        "from=offset",
        "from=time&at=noon",
        "from=time&at=1960-01-01",
        "from=here",
        "count=0",
        "as=picture",
    ],
)
async def test_bad_questions_are_refused(changing: Browser, topic: str, query: str) -> None:
    assert (await changing.get(f"/topics/{topic}/0/records?{query}")).status == 400
    assert (await changing.get(f"/topics/{topic}/{'9' * 5_000}/records")).status == 400
    assert (await changing.get(f"/topics/{topic}/0/records/{'9' * 5_000}")).status == 400


async def test_hostile_records_are_only_text(changing: Browser, topic: str) -> None:
    base = f"/topics/{topic}/1/records"
    pages = [await changing.get(f"{base}?from=earliest&as={how}") for how in ("auto", "text", "json", "hex")]
    pages += [await changing.get(f"{base}/{offset}") for offset in range(6)]
    pages.append(await changing.get(f"/topics/{topic}/1/search?text=script"))
    for page in pages:
        assert page.status == 200, page.words
        for bad in ("<script>alert", "\x1b", "\u202e", "\x07", "<b>", "<i>", "\x00"):
            assert bad not in page.text
    text = pages[0].text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J\\u202e\\x07" in text
    assert "ff fe 00 3c 62 3e" in text, "bytes that are not UTF-8 are shown as hex"
    assert "not UTF-8" in pages[1].words
    assert "null" in pages[0].words and "empty" in pages[0].words
    assert "307.2 kB, not all of it is shown: the whole" in pages[0].words and len(text) < 50_000


async def test_a_large_value_is_cut_and_the_whole_is_a_file(changing: Browser, topic: str) -> None:
    page = await changing.get(f"/topics/{topic}/1/records/4")
    assert "not all of it is shown" in page.words and len(page.text) < 300_000
    whole = await changing.get(f"/topics/{topic}/1/records/4/value")
    assert whole.body == b"v" * 1024 * 300
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == 'attachment; filename="orders-1-4.value"'
    assert (await changing.get(f"/topics/{topic}/1/records/0/key")).body == HOSTILE
    assert (await changing.get(f"/topics/{topic}/1/records/0/0")).body == BROKEN
    for nothing in ("2/value", "0/7", "0/%3Cscript%3E"):
        assert (await changing.get(f"/topics/{topic}/1/records/{nothing}")).status == 404


async def test_a_search_finds_text_and_bytes_among_the_last_records(changing: Browser, topic: str) -> None:
    base = f"/topics/{topic}/0/search"
    page = await changing.get(f"{base}?text=k11")
    found = re.findall(r"/0/records/(\d+)\?as=auto[^>]*>", page.text)
    assert found == [*map(str, range(119, 109, -1)), "11"], "the newest first"
    assert "Searched offsets 0 to 120, back to 0: 11 found" in page.words and "Search on" not in page.words
    assert (
        "Searched offsets 110 to 120, back to 110: 10 found"
        in (await changing.get(f"{base}?text=k1&last=10")).words
    )
    header = await changing.get(f"{base}?bytes=616263&last=3")
    assert "3 found" in header.words
    on = await changing.get(f"{base}?text=k11&start=10&at=112&end=118&hits=3&window=7")
    assert "6 found" in on.words and "/records/112?as=auto" not in on.text
    for query in (
        "text=a&bytes=61",
        "bytes=6",
        "text=a&end=5&at=9",
        "text=a&end=5&at=1&window=0",
        "text=a&last=2000000",
    ):
        assert (await changing.get(f"{base}?{query}")).status == 400


async def test_an_export_is_what_consume_prints(changing: Browser, topic: str) -> None:
    exported = await changing.get(f"/topics/{topic}/0/export?from=offset&at=3&until=5")
    assert exported.headers["content-disposition"] == 'attachment; filename="orders-0-3.jsonl"'
    lines = [json.loads(line) for line in exported.text.splitlines()]
    record = ConsumerRecord(topic, 0, 3, 1_003_000, b"k3", b'{"number": 3}', (("trace", b"abc"),))
    assert lines[0] == record_json(record) and len(lines) == 2
    assert len((await changing.get(f"/topics/{topic}/0/export?from=earliest")).text.splitlines()) == 120
    assert len((await changing.get(f"/topics/{topic}/0/export?from=earliest&count=7")).text.splitlines()) == 7
    hostile = [
        json.loads(line)
        for line in (await changing.get(f"/topics/{topic}/1/export?from=earliest")).text.splitlines()
    ]
    assert hostile[1]["value_encoding"] == "base64" and hostile[2]["value"] is None


async def test_compaction_leaves_gaps_that_are_named(cluster: MemoryCluster, changing: Browser) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"}
    await cluster.create_topic("compacted", config=config)
    async with cluster.producer() as producer:
        for number in range(40):
            key = b"first" if number == 0 else b"same"
            await producer.send_and_wait("compacted", f"{number}".encode() * 100, key)

    async def is_compacted() -> bool:
        page = await changing.get("/topics/compacted/0/records?from=earliest")
        return "have no record now: compaction keeps the last record of each key" in page.words

    await eventually(is_compacted, deadline_s=30, what="compaction has removed records")
    answer = await changing.get("/topics/compacted/0/records/1")
    assert answer.status == 404 and "compaction" in answer.words


async def test_the_live_tail_shows_new_records(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("tailed")
    body, leave = bytearray(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(changing.follow("/topics/tailed/0/tail?first=0", body, leave))
        async with cluster.producer() as producer:
            await producer.send_and_wait("tailed", HOSTILE)
        await eventually(lambda: b'"next":1' in body, what="the record is shown")
        leave.set()
    said = json.loads(bytes(body).split(b"data: ")[1].split(b"\n")[0])
    assert said["count"] == 1 and "&lt;script&gt;" in said["html"] and "<script>" not in said["html"]


async def test_readers_are_bounded_and_end_with_their_browsers(
    cluster: MemoryCluster, changing: Browser
) -> None:
    await cluster.create_topic("read")
    bodies, leave = [bytearray() for _ in range(16)], asyncio.Event()
    others = Browser(changing.application, address="192.0.2.7")
    async with asyncio.TaskGroup() as tasks:
        for browser, body in zip((changing, others) * 8, bodies, strict=True):
            tasks.create_task(browser.follow("/topics/read/0/tail?first=0", body, leave))
        await eventually(
            lambda: all(body.startswith(b": nothing") for body in bodies), what="all of them read"
        )
        one_more = bytearray()
        await changing.follow("/topics/read/0/tail?first=0", one_more, leave)
        assert b"8 of your address (127.0.0.1) are open" in one_more
        third = await Browser(changing.application, address="192.0.2.9").get(
            "/topics/read/0/export?from=earliest"
        )
        assert third.status == 503 and "16 of all browsers are open" in third.words
        refused = await changing.get("/topics/read/0/export?from=earliest")
        assert refused.status == 503 and "readers of records" in refused.words, "a page, not a file"
        assert (await changing.get("/topics/read/0/records")).status == 200, "an empty log needs no reader"
        leave.set()
    async with cluster.producer() as producer:
        await producer.send_and_wait("read", b"value")
    page = await changing.get("/topics/read/0/records")
    assert page.status == 200 and "value" in page.words


async def test_a_partition_without_a_leader_says_so(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("lost", replication_factor=1)
    (broker,) = cluster.replicas("lost")
    cluster.kill(broker)
    try:

        async def is_said() -> bool:
            answer = await changing.get("/topics/lost/0/records")
            return answer.status == 503 and "has no leader now" in answer.words

        await eventually(is_said, what="the page says that there is no leader")
    finally:
        cluster.start(broker)
        await cluster.run_until(cluster.is_whole)


async def test_a_record_is_sent_once_it_was_shown(cluster: MemoryCluster, changing: Browser) -> None:
    await cluster.create_topic("sent", partitions=2)
    fields = {"topic": "sent", "partition": 1, "key": "k", "value": "<b>&\u202e", "headers": "a=1\nb=2=3"}
    page = await planned(changing, "send-record", fields)
    assert "is appended to partition 1 of topic sent" in page.words
    assert "&lt;b&gt;&amp;\\u202e" in page.text and "header b text 3 B 2=3" in page.words
    outcome = await done(changing, page)
    assert "The record has offset 0 in sent-1" in outcome.words and "/topics/sent/1/records/0" in outcome.text
    record = await changing.get("/topics/sent/1/export?from=earliest")
    assert json.loads(record.text)["value"] == "<b>&\u202e"
    assert [each["value"] for each in json.loads(record.text)["headers"]] == ["1", "2=3"]
    refused: list[dict[str, object]] = [
        {**fields, "partition": 7},
        {**fields, "value_form": "hex"},
        {**fields, "value_form": "null"},
        {**fields, "headers": "none"},
        {**fields, "topic": "nowhere"},
        {**fields, "value": "v" * 512 * 1024},
    ]
    for each in refused:
        assert (await changing.post("/changes/send-record/plan", each)).status in (400, 404)
