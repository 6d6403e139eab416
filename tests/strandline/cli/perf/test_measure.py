"""The arithmetic of `strandline-lab perf`, without a cluster."""

from __future__ import annotations

import asyncio
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from strandline.config.limits import KIB
from strandline_lab.bench.report import median_of
from strandline_lab.perf.measure import CHUNK_BYTES_MAX, Load, spread, throughput, windowed


def test_a_spread_is_median_99th_percentile_and_maximum_by_nearest_rank() -> None:
    """What `perf latency` and `perf failover` report."""
    hundred = [number / 1000 for number in range(100, 0, -1)]
    assert spread(hundred) == {"p50_ms": 50.0, "p99_ms": 99.0, "max_ms": 100.0}
    assert spread([0.002]) == {"p50_ms": 2.0, "p99_ms": 2.0, "max_ms": 2.0}
    assert spread([]) == {"p50_ms": None, "p99_ms": None, "max_ms": None}


def test_throughput_counts_records_and_the_bytes_of_their_values() -> None:
    """What `perf produce` and `perf consume` report; MB are 10^6 bytes."""
    figures = throughput(1000, 2000, 0.5)
    assert (figures["records_per_s"], figures["mb_per_s"]) == (2000, 4.0)


@given(records=st.integers(1, 200_000), size=st.integers(1, 1_000_000))
def test_chunks_send_each_record_once_in_bounded_calls(records: int, size: int) -> None:
    """CONTRIBUTING 7: everything has a bound."""
    chunks = Load("t", 1, records, size, in_flight=1, batch_bytes=1024).chunks()
    assert sum(chunks) == records
    assert max(chunks) == 1 or max(chunks) * size <= CHUNK_BYTES_MAX


@given(records=st.integers(1, 200_000), size=st.integers(1, 300_000))
def test_batches_have_as_many_records_as_were_asked_for(records: int, size: int) -> None:
    """`perf produce --api batch --records 10` sends ten, and not a whole batch."""
    load = Load("t", 1, records, size, in_flight=11, batch_bytes=256 * KIB)
    batches = load.batches()
    assert sum(batches) == records
    assert max(batches) == 1 or max(batches) * size <= load.batch_bytes


async def test_no_more_calls_are_unanswered_than_the_window_has() -> None:
    """`perf produce --in-flight`."""
    loop = asyncio.get_running_loop()
    unanswered: list[asyncio.Future[None]] = []
    most = 0

    async def call() -> asyncio.Future[None]:
        nonlocal most
        future = loop.create_future()
        unanswered.append(future)
        most = max(most, len(unanswered))
        loop.call_soon(answer)
        return future

    def answer() -> None:
        unanswered.pop(0).set_result(None)

    done: list[int] = []
    took = await windowed(((size, partial(call)) for size in range(20)), 3, done.append)
    assert len(took) == 20
    assert sorted(done) == list(range(20))
    assert most == 3


def test_a_median_shows_its_extremes() -> None:
    """PERFORMANCE: medians of several runs; run-to-run drift must be seen."""
    assert median_of([1_234_000, 1_000_000, 1_500_000]) == "1.23 M (1 M–1.5 M)"
    assert median_of([9]) == "9"
