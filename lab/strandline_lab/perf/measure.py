"""The measurements of `strandline-lab perf`. Each takes clients that are started, and returns plain figures.

Times are seconds of a monotonic clock; a figure's name ends in its unit. MB are 10^6 bytes of values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline.adapters.system.clock import SystemClock
from strandline.errors import RequestTimedOut

if TYPE_CHECKING:
    from strandline import Consumer, Producer
    from strandline.ids import TopicPartition

CHUNK_RECORDS_MAX: Final = 10_000
CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
SAMPLE_EVERY: Final = 64
"""One `send` of this many is timed: timing all of them would measure the timing."""
SILENCE_S_MAX: Final = 30.0
"""A consumer that has received nothing for this time will receive nothing."""

Advance = Callable[[int], None]
SendCall = Callable[[], Awaitable[asyncio.Future[Any]]]
Figures = dict[str, Any]


def spread(seconds: Sequence[float]) -> Figures:
    """Median, 99th percentile (nearest rank) and maximum, in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return {"p50_ms": None, "p99_ms": None, "max_ms": None}

    def rank(share: float) -> float:
        return round(ordered[max(0, -int(-share * len(ordered) // 1) - 1)] * 1000, 3)

    return {"p50_ms": rank(0.50), "p99_ms": rank(0.99), "max_ms": rank(1.0)}


def throughput(records: int, record_size: int, seconds: float) -> Figures:
    return {
        "records": records,
        "record_size": record_size,
        "seconds": round(seconds, 4),
        "records_per_s": round(records / seconds),
        "mb_per_s": round(records * record_size / seconds / 1e6, 2),
    }


@dataclass(frozen=True, slots=True)
class Load:
    """The load of `produce`: `records` values of `record_size` bytes, over `partitions` of `topic`."""

    topic: str
    partitions: int
    records: int
    record_size: int
    in_flight: int
    batch_bytes: int

    def chunks(self) -> Sequence[int]:
        """The number of records in each bulk call."""
        return self._parts(min(CHUNK_RECORDS_MAX, CHUNK_BYTES_MAX // self.record_size))

    def batches(self) -> Sequence[int]:
        """The number of records in each batch that is encoded beforehand."""
        return self._parts(self.batch_bytes // self.record_size)

    def _parts(self, size: int) -> Sequence[int]:
        size = max(1, size)
        whole, rest = divmod(self.records, size)
        return [size] * whole + ([rest] if rest else [])


async def produce(producer: Producer, api: str, load: Load, advance: Advance) -> Figures:
    """Sends the load by one of the three calls, and waits for the last acknowledgement."""
    clock = SystemClock()
    began = clock.monotonic()
    match api:
        case "send":
            sent, took = await _produce_by_send(producer, load, advance)
        case "many":
            sent, took = await _produce_in_bulk(producer, load, advance)
        case _:
            sent, took = await _produce_batches(producer, load, advance)
    return {**throughput(sent, load.record_size, clock.monotonic() - began), **spread(took)}


async def _produce_by_send(producer: Producer, load: Load, advance: Advance) -> tuple[int, list[float]]:
    """Sends record by record; the producer's buffer bounds the records in flight."""
    monotonic = SystemClock().monotonic
    took: list[float] = []

    def timed(began: float, _future: object) -> None:
        took.append(monotonic() - began)

    value = bytes(load.record_size)
    send, topic = producer.send, load.topic
    sampled: list[asyncio.Future[Any]] = []
    for size in load.chunks():
        for at in range(size):
            future = await send(topic, value)
            if at % SAMPLE_EVERY == 0:
                future.add_done_callback(partial(timed, monotonic()))
                sampled.append(future)
        advance(size)
    await producer.flush()
    await asyncio.sleep(0)  # a completed future may not have called `timed` yet
    for future in sampled:
        future.result()
    return load.records, took


async def _produce_in_bulk(producer: Producer, load: Load, advance: Advance) -> tuple[int, list[float]]:
    """Sends many values in a call, with `in_flight` calls at a time."""
    values = [bytes(load.record_size)] * max(load.chunks())
    calls = (
        (size, partial(producer.send_many, load.topic, values if size == len(values) else values[:size]))
        for size in load.chunks()
    )
    return load.records, await windowed(calls, load.in_flight, advance)


async def _produce_batches(producer: Producer, load: Load, advance: Advance) -> tuple[int, list[float]]:
    """Sends batches encoded beforehand as opaque bytes, `in_flight` at a time for each partition."""
    from strandline.records import encode_values

    now_ms, value = SystemClock().wall_ms(), bytes(load.record_size)
    sizes = load.batches()
    encoded = {size: encode_values([value] * size, now_ms) for size in set(sizes)}
    calls = (
        (size, partial(producer.send_batch, load.topic, number % load.partitions, encoded[size]))
        for number, size in enumerate(sizes)
    )
    return load.records, await windowed(calls, load.in_flight * load.partitions, advance)


async def windowed(calls: Iterable[tuple[int, SendCall]], window: int, advance: Advance) -> list[float]:
    """Makes the calls in order, with at most `window` unanswered. Returns the duration of each.

    Raises the first error of a call.
    """
    monotonic = SystemClock().monotonic
    took: list[float] = []
    room = asyncio.Semaphore(window)
    futures: list[asyncio.Future[Any]] = []

    def answered(began: float, size: int, _future: object) -> None:
        took.append(monotonic() - began)
        room.release()
        advance(size)

    for size, call in calls:
        await room.acquire()
        began = monotonic()
        future = await call()
        future.add_done_callback(partial(answered, began, size))
        futures.append(future)
    for _ in range(window):
        await room.acquire()  # a completed future may not have called `answered` yet
    for future in futures:
        future.result()
    return took


async def consume(
    consumer: Consumer, api: str, partitions: Sequence[TopicPartition], load: Load, advance: Advance
) -> Figures:
    """Reads the load from its beginning: undecoded batches, lists of records, or one record at a time.

    Raises RequestTimedOut when the records stop coming.
    """
    monotonic = SystemClock().monotonic
    read_some = {"batches": _read_batches, "many": _read_lists, "one": _read_one_by_one}[api]
    consumer.assign(list(partitions))
    began = monotonic()
    await consumer.seek_to_beginning(*partitions)
    read = 0
    while read < load.records:
        try:
            async with asyncio.timeout(SILENCE_S_MAX):
                got = await read_some(consumer, load.records - read)
        except TimeoutError:
            raise RequestTimedOut(
                f"{read} of {load.records} read, then nothing for {SILENCE_S_MAX:.0f} s"
            ) from None
        read += got
        advance(got)
    return throughput(read, load.record_size, monotonic() - began)


async def _read_batches(consumer: Consumer, _wanted: int) -> int:
    return sum(batch.record_count for batch in await consumer.getbatches(timeout_ms=1_000))


async def _read_lists(consumer: Consumer, _wanted: int) -> int:
    batches = await consumer.getmany(timeout_ms=1_000, max_records=CHUNK_RECORDS_MAX)
    return sum(map(len, batches.values()))


async def _read_one_by_one(consumer: Consumer, wanted: int) -> int:
    wanted = min(wanted, CHUNK_RECORDS_MAX)
    for _ in range(wanted):
        await consumer.getone()
    return wanted


async def commit_latency(producer: Producer, load: Load, advance: Advance) -> Figures:
    """Measures one record in flight: from `send` to its acknowledgement."""
    monotonic = SystemClock().monotonic
    value = bytes(load.record_size)
    took = []
    for number in range(load.records):
        began = monotonic()
        await producer.send_and_wait(load.topic, value, partition=number % load.partitions)
        took.append(monotonic() - began)
        advance(1)
    return spread(took)


async def end_to_end_latency(
    producer: Producer, consumer: Consumer, partition: TopicPartition, load: Load, advance: Advance
) -> Figures:
    """Measures one record in flight: from `send` until a waiting consumer has it."""
    monotonic = SystemClock().monotonic
    value = bytes(load.record_size)
    took = []
    consumer.assign([partition])
    await consumer.seek_to_end(partition)
    for _ in range(load.records):
        began = monotonic()
        sent = await producer.send(load.topic, value, partition=partition.partition)
        await consumer.getone()
        took.append(monotonic() - began)
        await sent
        advance(1)
    return spread(took)
