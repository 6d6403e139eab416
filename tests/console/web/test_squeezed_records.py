"""Batches that decompress to many times their size: no page of the console takes much memory for them."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from strandline.adapters.codecs.log import PRODUCE
from strandline.config.limits import MIB
from strandline.ids import TopicPartition
from strandline.records import Codec, encode_batch
from strandline.testing import MemoryCluster
from strandline.vocabulary.log import ProduceEntry
from tests.console.web.browser import Browser
from tests.waiting import eventually

BATCHES = 60
ZEROS = TopicPartition("zeros", 0)
TINY = TopicPartition("tiny", 0)
NEARLY = TopicPartition("nearly", 0)
PEAK_BYTES_MAX = 96 * MIB
"""One batch of 16 MiB, decompressed and taken apart, with what a test itself needs."""


def zeros(size: int) -> bytes:
    return encode_batch([(b"k", bytes(size), (), 7)], codec=Codec.ZSTD)


async def produce(cluster: MemoryCluster, name: TopicPartition, *batches: bytes) -> None:
    """Sends batches as they are: no producer of ours makes such ones."""
    async with cluster.admin() as admin:
        (topic,) = (await admin.metadata([name.topic])).topics
    leader = topic.partitions[name.partition].leader
    transport = cluster.host.transport(None)
    stream = await transport.open(cluster.bootstrap.split(",")[leader - 1], PRODUCE, timeout_s=30)
    for batch in batches:
        await stream.write([ProduceEntry(name, batch)])
        (result,) = await stream.read()
        assert result.error is None
    stream.close()
    await transport.close()


@pytest.fixture(scope="module", autouse=True)
async def _topics(cluster: MemoryCluster) -> AsyncIterator[None]:
    """`zeros`: 60 batches of 2 KB with a record of 60 MiB each, and a last one of five bytes. `tiny`: one of
    600,000 records. `nearly`: six with 15 MiB each."""
    for name in (ZEROS, TINY, NEARLY):
        await cluster.create_topic(name.topic)
    large = zeros(60 * MIB)
    assert len(large) < 8_000
    await produce(cluster, ZEROS, *[large] * BATCHES, zeros(5))
    await produce(cluster, TINY, encode_batch([(None, b"", (), 7)] * 600_000, codec=Codec.ZSTD))
    await produce(cluster, NEARLY, *[zeros(15 * MIB)] * 6)
    yield


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX, f"{peak // MIB} MiB"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "what", ["records?from=earliest&count=500", "records/3", "search?text=k", "export?from=earliest"]
)
async def test_a_batch_that_is_too_large_is_said_to_be_and_not_decompressed(
    changing: Browser, what: str
) -> None:
    with little_memory():
        answer = await changing.get(f"/topics/zeros/0/{what}")
    assert "do not decompress to at most 16777216 bytes" in answer.text
    if "earliest" in what:
        assert answer.text.count("do not decompress") == BATCHES
        assert "/records/60?as=auto" in answer.text or '"offset": 60, "timestamp"' in answer.text


@pytest.mark.timeout(120)
async def test_a_live_tail_says_it_too(changing: Browser) -> None:
    body, leave = bytearray(), asyncio.Event()

    with little_memory():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(changing.follow("/topics/zeros/0/tail?first=0", body, leave))
            await eventually(lambda: b'"next":61' in body, deadline_s=60, what="the last one is shown")
            leave.set()
    assert b"do not decompress" in body


@pytest.mark.timeout(120)
async def test_a_page_stops_at_its_bytes_and_the_next_one_goes_on(changing: Browser) -> None:
    with little_memory():
        page = await changing.get("/topics/nearly/0/records?from=earliest")
    assert "/records/0?as=auto" in page.text and "/records/1?as=auto" not in page.text
    assert "from=offset&amp;at=1&amp;" in page.text


@pytest.mark.timeout(120)
async def test_an_export_of_large_records_is_complete(changing: Browser) -> None:
    body, never = bytearray(), asyncio.Event()
    await changing.follow("/topics/nearly/0/export?from=earliest&count=2", body, never)
    lines = body.splitlines()
    assert [len(line) > 90_000_000 for line in lines] == [True, True]
    assert lines[0].startswith(b'{"topic": "nearly"') and lines[0].endswith(b'\\u0000", "headers": []}')


@pytest.mark.timeout(120)
async def test_a_batch_of_too_many_records_is_said_to_be_one(changing: Browser) -> None:
    with little_memory():
        page = await changing.get("/topics/tiny/0/records?from=earliest")
    assert "its batch has 600,000 records" in page.text
