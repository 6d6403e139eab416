"""How fast are batches made, read, appended and fetched on one core, and what do idle replicas cost?"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage.compaction.key_map import ENTRY_BYTES, KeyMap
from strandline.broker.storage.log import PartitionLog
from strandline.records import (
    Codec,
    decode,
    encode_batch,
    encode_values,
    split,
    validate,
)
from strandline.vocabulary.topic_config import TopicConfig
from strandline_lab.bench.report import RUNS, heading, median_of, resident_mib, table

RECORD_BYTES: Final = 100
RECORDS: Final = 5_000
VOLUME_BYTES: Final = 256 << 20
REPLICAS: Final = 3_000
COMPACTED_RECORDS: Final = 1_000_000
COMPACTION_MAP_BYTES: Final = 512 << 20
CONFIG: Final = TopicConfig(segment_bytes=128 << 20)


def seconds(work: Callable[[], object]) -> float:
    """Processor time, since other processes take a share of the wall clock's."""
    start = process_time()
    work()
    return process_time() - start


def elapsed_ms(work: Callable[[], object]) -> str:
    """Wall-clock time, since this work waits for the disk."""
    start = perf_counter()
    work()
    return f"{(perf_counter() - start) * 1e3:.0f} ms"


def rates(work: Callable[[], object], amount: float, runs: int) -> list[float]:
    """`amount` a second, run by run."""
    work()
    return [amount / seconds(work) for _ in range(runs)]


def codec_rows(runs: int) -> Iterator[tuple[str, str]]:
    """Records of 100 bytes a second, 5,000 to a batch."""
    time = SystemClock().wall_ms()
    equal = [os.urandom(RECORD_BYTES // 2).hex().encode() for _ in range(RECORDS)]
    mixed = [value[: 80 + index % 21] for index, value in enumerate(equal)]
    plain = [(None, value, (), time + index // 20) for index, value in enumerate(equal)]
    keyed = [(b"%d" % index, value, (), time + index // 20) for index, value in enumerate(equal)]
    works: dict[str, Callable[[], object]] = {
        "encode_values, one length": partial(encode_values, equal, time),
        "encode_values, mixed lengths": partial(encode_values, mixed, time),
        "encode_batch": partial(encode_batch, plain),
        "encode_batch with keys": partial(encode_batch, keyed),
        "decode, one length": partial(decode, encode_values(equal, time)),
        "decode, mixed lengths": partial(decode, encode_values(mixed, time)),
        "decode, keys and times": partial(decode, encode_batch(keyed)),
    }
    for codec in tuple(Codec)[1:]:
        name = codec.name.lower()
        works[f"encode_values, {name}"] = partial(encode_values, equal, time, codec=codec)
        works[f"decode, {name}"] = partial(decode, encode_values(equal, time, codec=codec))
    for name, work in works.items():
        yield name, median_of(rates(work, RECORDS, runs))


def log_rows(folder: Path, runs: int) -> Iterator[tuple[str, str, str]]:
    """Batches a second and MB a second: appended as a leader and as a follower, and read."""
    clock = SystemClock()
    for size in (1 << 10, 64 << 10, 256 << 10):
        count = min(VOLUME_BYTES // size, 20_000)
        batch = encode_values([b"x" * RECORD_BYTES] * (size // (RECORD_BYTES + 8)), clock.wall_ms())
        rates_of: dict[str, list[float]] = {}
        for run in range(runs):
            leader, follower = (
                PartitionLog.open(
                    folder / f"{size}-{run}-{role}", CONFIG, clock=clock, clean=True, files=SYSTEM_FILES
                )
                for role in ("leader", "follower")
            )
            for name, rate in once(leader, follower, batch, count):
                rates_of.setdefault(name, []).append(rate)
            for log in (leader, follower):
                log.reset_to(0)
                log.close(clean=False)
        for name, found in rates_of.items():
            megabytes = [rate * len(batch) / 1e6 for rate in found]
            yield f"{name}, batches of {size >> 10} KiB", median_of(found), median_of(megabytes)


def once(
    leader: PartitionLog, follower: PartitionLog, batch: bytes, count: int
) -> Iterator[tuple[str, float]]:
    """Batches a second of each kind of work, in one run."""
    leader.begin_epoch(0)

    def append() -> None:
        for _ in range(count):
            leader.append_as_leader(batch, 0, now_ms=0)

    def read() -> list[bytes]:
        parts, offset = [], 0
        while offset < leader.log_end_offset:
            data, offset = leader.read_range(offset, 512 << 10, below=leader.log_end_offset)
            parts.append(data)
        return parts

    def tail() -> None:
        offset = leader.log_end_offset
        for _ in range(count):
            leader.append_as_leader(batch, 0, now_ms=0)
            _, offset = leader.read_range(offset, 512 << 10, below=leader.log_end_offset)

    def follow(parts: list[bytes]) -> None:
        for part in parts:
            follower.append_as_follower(part)

    yield "append as leader", count / seconds(append)
    parts = read()
    yield "read by 512 KiB", count / seconds(read)
    yield "append as follower by 512 KiB", count / seconds(lambda: follow(parts))
    yield "append and read the tail", count / seconds(tail)


def compaction_rows(folder: Path, runs: int) -> Iterator[tuple[str, str, str]]:
    """MB and records a second of one log of keyed records that is compacted, all of it dirty."""
    clock = SystemClock()
    config = CONFIG.model_copy(update={"cleanup_policy": "compact", "segment_bytes": 16 << 20})
    for name, per_batch, keys, codec in (
        ("1,000 records a batch, 10,000 keys", 1_000, 10_000, Codec.NONE),
        ("1,000 records a batch, 500,000 keys", 1_000, 500_000, Codec.NONE),
        ("1,000 records a batch, zstd, 10,000 keys", 1_000, 10_000, Codec.ZSTD),
        ("one record a batch, 10,000 keys", 1, 10_000, Codec.NONE),
    ):
        megabytes: list[float] = []
        records: list[float] = []
        for run in range(runs):
            log = PartitionLog.open(
                folder / f"{name}-{run}", config, clock=clock, clean=True, files=SYSTEM_FILES
            )
            count = keyed_log(log, per_batch, keys, codec)
            size = log.size_bytes
            taken = seconds(lambda log=log: compact(log))  # type: ignore[misc]  # mypy infers no lambda with a default
            megabytes.append(size / 1e6 / taken)
            records.append(count / taken)
            log.reset_to(0)
            log.close(clean=False)
        yield name, median_of(megabytes), median_of(records)


def keyed_log(log: PartitionLog, per_batch: int, keys: int, codec: Codec) -> int:
    """Fills a log. Returns the number of records."""
    log.begin_epoch(0)
    chance = random.Random(0)
    count = COMPACTED_RECORDS if per_batch > 1 else COMPACTED_RECORDS // 10
    names = [b"key %d" % number for number in range(keys)]
    values = [chance.randbytes(RECORD_BYTES // 2).hex().encode() for _ in range(1_000)]
    batches = [
        encode_batch(
            [(chance.choice(names), chance.choice(values), (), 0) for _ in range(per_batch)], codec=codec
        )
        for _ in range(count // per_batch)
    ]
    for batch in batches:
        log.append_as_leader(batch, 0, now_ms=0)
    log.append_as_leader(encode_batch([(b"last", b"", (), 0)]), 0, now_ms=0)
    log.flush()
    return count


def compact(log: PartitionLog) -> None:
    """Compacts as a broker does, in one thread."""
    compaction = log.begin_compaction(
        now_ms=0, high_watermark=log.log_end_offset, map_bytes=COMPACTION_MAP_BYTES
    )
    assert compaction is not None
    compaction.read_keys()
    while (group := compaction.write_group()) is not None:
        assert log.compactor.install(compaction, group)
    log.compactor.finish(compaction)
    assert compaction.complete


def map_row() -> tuple[str, str]:
    """The memory of a key in the map, and what the map counts for it."""
    before = resident_mib(os.getpid())
    keys = KeyMap(1 << 40)
    for start in range(0, 1_000_000, 1_000):
        names = [b"key %d" % number for number in range(start, start + 1_000)]
        keys.add(names, range(start, start + 1_000))
    used = (resident_mib(os.getpid()) - before) * (1 << 20) / len(keys.last)
    return "a key in the map", f"{used:.0f} B of memory; {ENTRY_BYTES} B and its length are counted"


def replica_rows(folder: Path) -> Iterator[tuple[str, str]]:
    """The cost of thousands of replicas with one record each."""
    clock = SystemClock()
    record = encode_values([b"x"], 0)
    logs: list[PartitionLog] = []

    def open_all(*, clean: bool) -> None:
        logs[:] = [
            PartitionLog.open(folder / f"t-{number}", CONFIG, clock=clock, clean=clean, files=SYSTEM_FILES)
            for number in range(REPLICAS)
        ]

    def write_all() -> None:
        for log in logs:
            log.begin_epoch(log.epochs.latest + 1)
            log.append_as_leader(record, log.epochs.latest, now_ms=0)

    def close_all(*, clean: bool) -> None:
        for log in logs:
            log.close(clean=clean)

    before = resident_mib(os.getpid())
    yield "open, empty", elapsed_ms(lambda: open_all(clean=True))
    yield "memory, empty", f"{resident_mib(os.getpid()) - before:.1f} MiB"
    yield "election and a record", elapsed_ms(write_all)
    yield "memory after it", f"{resident_mib(os.getpid()) - before:.1f} MiB"
    yield "clean close", elapsed_ms(lambda: close_all(clean=True))
    yield "open after a clean close", elapsed_ms(lambda: open_all(clean=True))
    close_all(clean=False)
    yield "open after a crash", elapsed_ms(lambda: open_all(clean=False))
    close_all(clean=False)


async def measure(runs: int = RUNS) -> None:
    """Print the tables."""
    data = encode_values([b"x" * RECORD_BYTES] * RECORDS, 0)
    checks = rates(lambda: validate(data), len(data) / 1e6, runs)
    splits = rates(lambda: split(data), 1, runs)
    heading("Record codec, records of 100 B, a second of processor time", "storage")
    table(("work", "records/s"), codec_rows(runs))
    print(
        f"\nChecking a batch of {len(data) >> 10} KiB: {median_of(checks)} MB/s; its header alone:", end=" "
    )
    print(f"{median_of([1e6 / rate for rate in splits])} µs\n")
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        heading("One partition's log, no fsync, a second of processor time", "storage")
        table(("work", "batches/s", "MB/s"), log_rows(Path(folder), runs))
        heading("One log compacted, a second of processor time", "storage")
        table(("log", "MB/s", "records/s"), compaction_rows(Path(folder), runs))
        print(": ".join(map_row()))
        heading(f"{REPLICAS:,} replicas", "storage")
        table(("work", "cost"), replica_rows(Path(folder)))
