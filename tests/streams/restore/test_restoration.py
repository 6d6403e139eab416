"""How one changelog goes into one store: slices, checkpoints, ends; from a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.consumer.records import FetchedBatch
from strandline.errors import InvalidRequest, StorageFailed
from strandline.ids import TopicPartition
from strandline.records import encode_batch, gap_batch, validate
from strandline.streams.core.task import TaskId
from strandline.streams.restore.restoration import SLICE_BYTES, SLICE_RECORDS, Restoration
from strandline.vocabulary.log import ListedOffset
from tests.streams.restore.changelogs import raised
from tests.waiting import eventually

NAME = TopicPartition("counts-changelog", 3)
TASK = TaskId("counts", 3)

Pair = tuple[bytes | None, bytes | None]


class Table:
    """A store in memory. `writes` are the records of each write with its checkpoint."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.checkpoint = 0
        self.writes: list[tuple[int, int]] = []
        self.cleared = 0

    def apply(self, changes: Iterable[tuple[bytes, bytes | None]], checkpoint: int) -> None:
        changes = list(changes)
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.checkpoint = checkpoint
        self.writes.append((len(changes), checkpoint))

    def clear(self) -> None:
        self.rows.clear()
        self.checkpoint = 0
        self.cleared += 1


class Log:
    """A changelog whose batches come when the test has them come, and whose ends are what it says."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        """The end of all that was appended."""
        self.ends: list[int] = []
        """A leader's answers in turn; the last one repeats forever."""
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.batches: list[FetchedBatch] = []
        self.reopened = 0
        self.forgotten = 0

    def append(self, pairs: Sequence[Pair], *, from_offset: int = 0) -> None:
        records = [(key, value, (), 0) for key, value in pairs]
        self._keep(encode_batch(records, base_offset=self.end), from_offset)

    def append_gap(self, records: int) -> None:
        self._keep(gap_batch(self.end, self.end + records, 0), 0)

    def _keep(self, data: bytes, from_offset: int) -> None:
        (header,) = validate(data)
        self.batches.append(FetchedBatch(NAME, header, data, from_offset))
        self.end = header.next_offset

    async def bounds(self, changelog: TopicPartition) -> ListedOffset:
        self.asked += 1
        await self.answers.wait()
        end = self.end if not self.ends else self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        return ListedOffset(changelog, None, end, -1, 0, end, self.start, end)

    async def check_identity(self, changelog: TopicPartition) -> None:
        await asyncio.sleep(0)

    def take(self, changelog: TopicPartition) -> FetchedBatch | None:
        return self.batches.pop(0) if self.batches else None

    def high_watermark(self, changelog: TopicPartition) -> int | None:
        return None

    def reopen(self, restoration: Restoration) -> None:
        self.reopened += 1
        restoration.placed = False

    def forget(self, restoration: Restoration) -> None:
        self.forgotten += 1


async def placed(log: Log, table: Table) -> Restoration:
    restoration = Restoration(TASK, NAME, table, changelogs=log, clock=SystemClock())
    restoration.place(await log.bounds(NAME))
    return restoration


def numbered(count: int, first: int = 0, size: int = 1) -> list[Pair]:
    return [(b"k%d" % number, b"v" * size) for number in range(first, first + count)]


def drain(restoration: Restoration) -> int:
    """Slices that there were."""
    slices = 0
    while restoration.step():
        slices += 1
    return slices


# --- slices --------------------------------------------------------------------------------------


async def test_small_batches_are_written_together_and_the_last_value_of_a_key_counts() -> None:
    log, table = Log(), Table()
    for number in range(5):
        log.append([(b"a", b"%d" % number), (b"b%d" % number, b"x")])
    log.append([(b"b0", None)])
    restoration = await placed(log, table)
    assert drain(restoration) == 1
    assert table.rows == {b"a": b"4", **{b"b%d" % number: b"x" for number in range(1, 5)}}
    assert (table.checkpoint, restoration.restored, restoration.lag) == (11, 11, 0)


async def test_a_large_batch_is_written_in_slices_each_with_its_checkpoint() -> None:
    log, table = Log(), Table()
    log.append(numbered(2 * SLICE_RECORDS + 1))
    restoration = await placed(log, table)
    assert drain(restoration) == 3
    assert table.writes == [
        (SLICE_RECORDS, SLICE_RECORDS),
        (SLICE_RECORDS, 2 * SLICE_RECORDS),
        (1, 2 * SLICE_RECORDS + 1),
    ]


async def test_a_slice_is_bounded_in_bytes() -> None:
    log, table = Log(), Table()
    log.append(numbered(9, size=SLICE_BYTES // 4))
    log.append(numbered(1, size=3 * SLICE_BYTES))
    log.append(numbered(1))
    restoration = await placed(log, table)
    assert drain(restoration) == 4
    assert [checkpoint for _, checkpoint in table.writes] == [4, 8, 10, 11]


async def test_records_in_the_store_are_not_applied_again() -> None:
    log, table = Log(), Table()
    log.append(numbered(4))
    log.append(numbered(4, first=4))
    log.append(numbered(4, first=8), from_offset=6)
    table.checkpoint = 6
    restoration = await placed(log, table)
    drain(restoration)
    assert sorted(table.rows) == sorted(b"k%d" % number for number in range(6, 12))
    assert (table.checkpoint, restoration.restored) == (12, 6)


async def test_a_batch_that_compaction_emptied_moves_the_checkpoint() -> None:
    log, table = Log(), Table()
    log.append(numbered(2))
    log.append_gap(50)
    restoration = await placed(log, table)
    drain(restoration)
    assert (table.checkpoint, restoration.restored, restoration.lag) == (52, 2, 0)


async def test_records_without_a_key_are_skipped_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    log, table = Log(), Table()
    log.append([(None, b"?"), (b"a", b"1"), (None, b"?")])
    restoration = await placed(log, table)
    drain(restoration)
    assert (table.rows, table.checkpoint) == ({b"a": b"1"}, 3)
    assert "without a key" in caplog.text


async def test_a_store_with_another_writer_is_a_crash() -> None:
    log, table = Log(), Table()
    log.append(numbered(2))
    restoration = await placed(log, table)
    table.checkpoint = 1
    with pytest.raises(AssertionError, match="counts-3"):
        restoration.step()


# --- where it begins -----------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "checkpoint"), [(5, 4), (5, 13), (0, 13)])
async def test_a_store_that_is_no_part_of_the_log_is_emptied(start: int, checkpoint: int) -> None:
    log, table = Log(), Table()
    log.append(numbered(12))
    log.start = start
    table.apply([(b"old", b"1")], checkpoint)
    await placed(log, table)
    assert (table.cleared, table.checkpoint, table.rows) == (1, start, {})


@pytest.mark.parametrize("checkpoint", [5, 8, 12])
async def test_a_store_that_is_a_part_of_the_log_is_kept(checkpoint: int) -> None:
    log, table = Log(), Table()
    log.append(numbered(12))
    log.start = 5
    table.apply([(b"old", b"1")], checkpoint)
    await placed(log, table)
    assert (table.cleared, table.checkpoint, table.rows) == (0, checkpoint, {b"old": b"1"})


async def test_an_empty_log_that_does_not_begin_at_0_is_complete_at_once() -> None:
    log, table = Log(), Table()
    log.start = log.end = 7
    restoration = await placed(log, table)
    assert await restoration.complete() == 7 == table.checkpoint
    assert not table.cleared


# --- its end -------------------------------------------------------------------------------------


async def test_the_end_is_asked_for_when_it_is_to_be_complete() -> None:
    log, table = Log(), Table()
    log.append(numbered(2))
    restoration = await placed(log, table)
    drain(restoration)
    await restoration.within(0)
    log.append(numbered(3))  # a former owner has the last word
    async with asyncio.TaskGroup() as tasks:
        completion = tasks.create_task(restoration.complete())
        await eventually(lambda: log.asked == 2)
        assert not completion.done()
        drain(restoration)
    assert completion.result() == 5
    assert restoration.over and log.forgotten == 1


async def test_a_truncated_end_is_not_waited_for() -> None:
    """Records that only a dead leader had are lost with it; the end is requested again."""
    log, table = Log(), Table()
    log.append(numbered(8))
    restoration = await placed(log, table)
    log.ends = [10, 8]
    drain(restoration)
    assert await restoration.complete() == 8


async def test_a_store_ahead_of_its_changelog_is_restored_from_the_start() -> None:
    log, table = Log(), Table()
    log.append(numbered(8))
    restoration = await placed(log, table)
    drain(restoration)
    log.ends = [3]
    async with asyncio.TaskGroup() as tasks:
        completion = tasks.create_task(restoration.complete())
        await eventually(lambda: log.reopened == 1)
        log.append(numbered(5))
        assert not restoration.step()
        assert not completion.done()
        log.batches.clear()
        log.end = 0
        restoration.place(await log.bounds(NAME))
        assert table.cleared == 1
        log.append(numbered(3))
        drain(restoration)
    assert completion.result() == 3


async def test_appends_while_a_leader_is_asked_are_no_loss() -> None:
    log, table = Log(), Table()
    log.append(numbered(8))
    restoration = await placed(log, table)
    log.ends = [4]
    log.answers.clear()
    async with asyncio.TaskGroup() as tasks:
        completion = tasks.create_task(restoration.complete())
        await eventually(lambda: log.asked == 2)
        drain(restoration)
        log.answers.set()
    assert completion.result() == 8
    assert not log.reopened


async def test_nothing_touches_the_store_after_the_end() -> None:
    log, table = Log(), Table()
    log.append(numbered(2 * SLICE_RECORDS))
    restoration = await placed(log, table)
    restoration.step()
    await restoration.end()
    log.append(numbered(5))
    assert not restoration.step()
    assert table.checkpoint == SLICE_RECORDS
    await restoration.end()
    assert log.forgotten == 1
    for wait in (restoration.within(0), restoration.complete()):
        with pytest.raises(InvalidRequest, match="counts-3 has ended"):
            await wait


@pytest.mark.parametrize("error", [InvalidRequest, StorageFailed])
async def test_a_waiting_caller_learns_of_an_end_and_of_a_failure(error: type[Exception]) -> None:
    log, table = Log(), Table()
    log.ends = [5]
    restoration = await placed(log, table)
    async with asyncio.TaskGroup() as tasks:
        waits = [tasks.create_task(raised(work)) for work in (restoration.within(0), restoration.complete())]
        await eventually(lambda: log.asked == 2)
        if error is StorageFailed:
            restoration.fail(StorageFailed("no space"))
        else:
            await restoration.end()
    assert [type(wait.result()) for wait in waits] == [error, error]
    assert type(await raised(restoration.within(0))) is error


async def test_a_completion_that_is_cancelled_leaves_it_going_on() -> None:
    log, table = Log(), Table()
    log.append(numbered(2))
    restoration = await placed(log, table)
    for turns in range(6):
        async with asyncio.TaskGroup() as tasks:
            completion = tasks.create_task(restoration.complete())
            for _ in range(turns):
                await asyncio.sleep(0)
            completion.cancel()
        assert completion.cancelled()
        assert not restoration.over
    drain(restoration)
    assert await restoration.complete() == 2
