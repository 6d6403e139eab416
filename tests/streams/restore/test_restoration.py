"""How one changelog goes into one store: slices, checkpoints, ends; from a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from strandline.adapters.system.clock import SystemClock
from strandline.client.reading.records import FetchedBatch
from strandline.errors import InvalidRequest, StorageFailed
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.records import encode_batch, gap_batch, validate
from strandline.streams.core.checkpoint import NOTHING
from strandline.streams.core.task import TaskId
from strandline.streams.restore.restoration import SLICE_BYTES, SLICE_RECORDS, Restoration
from strandline.vocabulary.log import ListedOffset
from strandline.vocabulary.log_position import UNDEFINED, EpochEnd
from tests.hand_clock import HandClock
from tests.streams.restore.changelogs import raised
from tests.waiting import eventually

NAME = TopicPartition("counts-changelog", 3)
TASK = TaskId("counts", 3)

EPOCH = 3
"""That of all records."""

Pair = tuple[bytes | None, bytes | None]


class Table:
    """A store in memory. `writes` are the records of each write with its checkpoint."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.kept = NOTHING
        self.writes: list[tuple[int, int]] = []
        self.cleared = 0

    @property
    def checkpoint(self) -> int:
        return self.kept.offset

    def apply(
        self,
        changes: Iterable[tuple[bytes, bytes | None]],
        checkpoint: int,
        leader_epoch: int = NO_EPOCH,
        as_of_ms: int | None = None,
    ) -> None:
        changes = list(changes)
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.kept = self.kept.moved(checkpoint, leader_epoch, as_of_ms)
        self.writes.append((len(changes), checkpoint))

    def clear(self) -> None:
        self.rows.clear()
        self.kept = NOTHING
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
        self.watermark: int | None = None
        """None: all is committed."""
        self.epoch_ends: list[EpochEnd] = []
        """The answers in turn; before and after them none is known."""

    def append(self, pairs: Sequence[Pair], *, from_offset: int = 0) -> None:
        records = [(key, value, (), 0) for key, value in pairs]
        self._keep(encode_batch(records, base_offset=self.end, leader_epoch=EPOCH), from_offset)

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
        watermark = end if self.watermark is None else self.watermark
        return ListedOffset(changelog, None, end, -1, 0, watermark, self.start, end)

    async def epoch_end(self, changelog: TopicPartition, epoch: int) -> EpochEnd | None:
        await asyncio.sleep(0)
        return self.epoch_ends.pop(0) if self.epoch_ends else None

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
    table.apply((), 6)
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
    table.apply((), 1)
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


async def test_a_checkpoint_says_which_log_it_is_of_and_when_it_was_whole() -> None:
    """CORRECTNESS S11: it is not whole while more is known to be there."""
    log, table, clock = Log(), Table(), SystemClock()
    log.append(numbered(SLICE_RECORDS + 5))
    before_ms = clock.wall_ms()
    table.apply((), 1, EPOCH, 7)
    restoration = await placed(log, table)
    log.batches[0] = log.batches[0]._replace(from_offset=1)
    assert restoration.step()
    assert table.kept == (SLICE_RECORDS + 1, EPOCH, 7)
    assert restoration.step()
    assert table.kept[:2] == (SLICE_RECORDS + 5, EPOCH) and table.kept.as_of_ms >= before_ms


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (EpochEnd(EPOCH, 7), "lost what the store has from offset 7 on"),
        (EpochEnd(EPOCH - 1, 4), "lost what the store has from offset 4 on"),
        (UNDEFINED, "lost what the store has from offset 0 on"),
    ],
)
async def test_a_store_of_records_that_the_log_has_lost_is_emptied(
    end: EpochEnd, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """CORRECTNESS S11: the log has grown again."""
    log, table = Log(), Table()
    log.append(numbered(12))
    table.apply([(b"old", b"1")], 8, EPOCH)
    Restoration(TASK, NAME, table, changelogs=log, clock=SystemClock()).place(await log.bounds(NAME), end)
    assert (table.cleared, table.rows) == (1, {})
    assert why in caplog.text


@pytest.mark.parametrize("end", [EpochEnd(EPOCH, 8), EpochEnd(EPOCH, 12), None])
async def test_a_store_of_which_the_log_has_all_is_kept(end: EpochEnd | None) -> None:
    log, table = Log(), Table()
    log.append(numbered(12))
    table.apply([(b"old", b"1")], 8, EPOCH)
    Restoration(TASK, NAME, table, changelogs=log, clock=SystemClock()).place(await log.bounds(NAME), end)
    assert (table.cleared, table.checkpoint) == (0, 8)


@pytest.mark.parametrize(
    ("checkpoint", "age_ms", "kept_ms", "is_kept"),
    [
        (8, 950, 1_000, False),
        (8, 850, 1_000, True),
        (12, 950_000, 1_000, True),  # it has all
        (8, None, 1_000, True),
        (8, 950, None, True),
    ],
)
async def test_a_store_that_may_lack_tombstones_that_are_gone_is_emptied(
    checkpoint: int, age_ms: int | None, kept_ms: int | None, is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """CORRECTNESS S12: of an unknown age is none."""
    log, table, clock = Log(), Table(), HandClock()
    log.append(numbered(12))
    table.apply([(b"old", b"1")], checkpoint, EPOCH, None if age_ms is None else clock.wall_ms() - age_ms)
    restoration = Restoration(TASK, NAME, table, changelogs=log, clock=clock)
    restoration.place(await log.bounds(NAME), None, kept_ms)
    assert table.cleared != is_kept
    assert is_kept or "tombstones that it lacks may be gone" in caplog.text


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


async def test_a_restore_ends_at_the_logs_end_and_not_at_the_watermark() -> None:
    """What the last owner has appended, and no follower has yet, may be committed later: it is waited for."""
    log, table = Log(), Table()
    log.append(numbered(3))
    restoration = await placed(log, table)
    drain(restoration)
    log.watermark, log.ends = 3, [5]
    async with asyncio.TaskGroup() as tasks:
        completion = tasks.create_task(restoration.complete())
        await eventually(lambda: log.asked == 2)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not completion.done()
        log.append(numbered(2, 3))
        drain(restoration)
    assert completion.result() == 5


async def test_what_was_restored_and_is_lost_meanwhile_is_restored_again() -> None:
    """CORRECTNESS S11: the log is cut and grows again while it is read."""
    log, table = Log(), Table()
    log.append(numbered(8))
    restoration = await placed(log, table)
    drain(restoration)
    log.epoch_ends = [EpochEnd(EPOCH, 5)]
    async with asyncio.TaskGroup() as tasks:
        completion = tasks.create_task(restoration.complete())
        await eventually(lambda: log.reopened == 1)
        restoration.place(await log.bounds(NAME), EpochEnd(EPOCH, 5))
        assert table.cleared == 1 and not completion.done()
        log.end = 0
        log.append(numbered(8))
        drain(restoration)
    assert completion.result() == 8


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
