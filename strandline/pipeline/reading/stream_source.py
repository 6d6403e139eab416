"""The source of a streaming query: Spark asks for the end of the next batch, then for its records.

Spark stores the offsets of each batch in the checkpoint before it is read, and reads the batch again from
them after a crash. This object lives in one process of the driver as long as the query, and remembers what
Spark does not: where the stream began, and the end of the log when `availableNow` was prepared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from strandline.adapters.system.clock import SystemClock
from strandline.errors import StrandlineError
from strandline.pipeline.core import progress
from strandline.pipeline.core.offsets import Offsets, StreamOffset, listed
from strandline.pipeline.core.options import INT64_MAX, SourceOptions
from strandline.pipeline.core.pace import Pace
from strandline.pipeline.core.ranges import backlog, cut_away, ended_earlier
from strandline.pipeline.errors import InvalidOption
from strandline.pipeline.loop_thread import call
from strandline.pipeline.reading.batch_source import RangePartition, read_range
from strandline.pipeline.reading.cluster_facts import ClusterFacts, Snapshot
from strandline.pipeline.reading.log_epochs import ends_of, epochs_before, is_settled, moved_positions
from strandline.pipeline.reading.planning import begin, check_existing, facts, in_logs, in_pieces
from strandline.pipeline.reading.ranges import lose
from strandline.ports import Clock

if TYPE_CHECKING:
    from pyarrow import RecordBatch

logger = logging.getLogger(__name__)

T = TypeVar("T")

COMMIT_S_MAX = 5.0
"""How long a commit to a group may delay the stream, unless its maker says otherwise."""
COMMIT_AGAIN_S = 30.0
"""When a commit that failed is tried again, if no later one comes before."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query. Offsets are those of `StreamOffset`. `client` creates the client for broker
    requests; `commit_s_max` limits how long a commit delays the stream, `clock` times its looks."""

    def __init__(
        self,
        options: SourceOptions,
        client: Callable[[SourceOptions], ClusterFacts] = facts,
        *,
        commit_s_max: float = COMMIT_S_MAX,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._client = client
        self._commit_s_max = commit_s_max
        self._facts: ClusterFacts | None = None
        self._initial: dict[str, Any] | None = None
        self._target: StreamOffset | None = None
        """The end for availableNow."""
        self._seen: Snapshot | None = None
        self._clock = clock or SystemClock()
        self._pace = Pace()
        self._reported: dict[str, Any] | None = None
        """What `commitGroup` has, or what could not be committed at `_report_failed_at`."""
        self._report_failed_at: float | None = None
        self._triggered_at: float | None = None

    # --- offsets -----------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Computed once: Spark asks several times, and the end of the log would differ each time."""
        if self._initial is None:
            self._initial = self._ask(self._begin).as_json()
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch, or an unchanged `start` if there is none yet, which waits a moment for
        some. Raises DataLost.

        Spark asks for what comes after `start` once its record of commits has the batch that ended there.
        """
        if self._target is None and (wait_s := self._pace.wait_s(self._clock.monotonic())):
            call(self._clock.sleep(wait_s))
        end = self._next_end(start, limit)
        if start != self._initial:
            self._report(start)
        if end == start:
            self._pace.idle(self._clock.monotonic())
        else:
            self._pace.busy()
        return end

    def _next_end(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        written = StreamOffset.from_json(start)
        begun, latest, moved = self._ask(lambda facts: self._latest(facts, self._selected(written)))
        log_starts = {name: bounds.start for name, bounds in self._looked_at().bounds.items()}
        if self._target is not None:
            latest = progress.until(self._target, begun, latest)
        all_of_it = isinstance(limit, ReadAllAvailable)
        if (
            not all_of_it
            and self._target is None
            and self._waits(progress.to_read(begun, latest, log_starts), latest.offsets)
        ):
            return start
        most = None if all_of_it else self._options.max_offsets
        first = moved or start == self._initial
        end = progress.advance(begun, latest, log_starts, most=most, first=first)
        if not moved and progress.same_place(written, end):
            return start
        for loss in progress.step(begun, replace(end, since=None)).losses:
            lose(loss, fail=self._options.fail_on_data_loss)
        epochs = self._ask(lambda facts: epochs_before(facts, begun, end, self._looked_at()))
        return replace(end, epochs=epochs).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_offsets is None and options.min_offsets is None:
            return ReadAllAvailable()
        return ReadMaxRows(options.max_offsets or INT64_MAX)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = ends_of(self._ask(lambda facts: facts.snapshot(self._options.selection)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the logs at the last reading."""
        return None if self._seen is None else ends_of(self._seen).as_json()

    def _waits(self, starts: Offsets, ends: Offsets) -> bool:
        """Whether there is less than `minOffsetsPerTrigger`, and the last batch was recent."""
        least = self._options.min_offsets
        if least is None:
            return False
        there = backlog(starts, ends)
        now = self._clock.monotonic()
        delay_s = self._options.max_trigger_delay_ms / 1000
        if there < least and self._triggered_at is not None and now - self._triggered_at < delay_s:
            return True
        if there:
            self._triggered_at = now
        return False

    # --- records -----------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges between two offsets, also when repeated after a crash.

        Raises DataLost, InvalidOption.
        """
        begun, ended = StreamOffset.from_json(start), StreamOffset.from_json(end)
        kept = {*self._selected(begun).offsets, *self._selected(ended).offsets, *ended.offsets}
        begun = replace(begun, offsets={name: at for name, at in begun.offsets.items() if name in kept})
        for name, position in self._ask(
            lambda facts: moved_positions(facts, ended, self._looked_at())
        ).items():
            lose(cut_away(name, position.offset, ended.offsets[name]), fail=self._options.fail_on_data_loss)
        step = progress.step(begun, ended)
        for loss in step.losses:
            lose(loss, fail=self._options.fail_on_data_loss)
        wanted = [one for one in step.ranges if one.size]
        if not wanted:
            return []
        found = in_logs(wanted, self._looked_at(), fail_on_data_loss=self._options.fail_on_data_loss)
        return [RangePartition(piece) for piece in in_pieces(found, self._options)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_range(partition, self._options)

    # --- after a batch -----------------------------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed the batch that ends here, and has begun the next one."""
        self._pace.busy()
        self._report(end)

    def _report(self, end: dict[str, Any]) -> None:
        """Commit to a group, to make the lag visible. The stream itself uses its checkpoint."""
        group, now = self._options.commit_group, self._clock.monotonic()
        failed_at = self._report_failed_at
        if group is None or (
            end == self._reported and (failed_at is None or now - failed_at < COMMIT_AGAIN_S)
        ):
            return
        self._reported, self._report_failed_at = end, None
        ended = StreamOffset.from_json(end)
        positions = {name: ended.at(name) for name in ended.offsets}
        try:
            self._ask(lambda facts: facts.commit(group, positions), timeout_s=self._commit_s_max)
        except (StrandlineError, TimeoutError) as error:
            self._report_failed_at = self._clock.monotonic()
            logger.warning("commitGroup = %s: a batch's end was not committed: %s", group, error)

    def stop(self) -> None:
        facts, self._facts = self._facts, None
        if facts is not None:
            call(facts.stop())

    # --- requests ----------------------------------------------------------------------------

    async def _begin(self, facts: ClusterFacts) -> StreamOffset:
        snapshot = await facts.snapshot(self._options.selection)
        check_existing(snapshot.missing)
        return StreamOffset(await begin(facts, self._options, snapshot), snapshot.ids)

    def _selected(self, begun: StreamOffset) -> StreamOffset:
        """The partitions that are still to be read. Raises InvalidOption if the options leave one out."""
        kept = {
            name: offset for name, offset in begun.offsets.items() if self._options.selection.covers(name)
        }
        if left_out := begun.offsets.keys() - kept:
            why = f"the checkpoint has read {listed(left_out)}, which {self._options.selection} leaves out"
            if self._options.fail_on_data_loss:
                raise InvalidOption(
                    f"{why}: name it too, or give the query a checkpointLocation of its own. "
                    "failOnDataLoss=false goes on without it"
                )
            logger.warning("%s; going on without it, as failOnDataLoss is false", why)
        return replace(begun, offsets=kept)

    async def _latest(
        self, facts: ClusterFacts, begun: StreamOffset
    ) -> tuple[StreamOffset, StreamOffset, bool]:
        """Where the next batch begins, the ends of the logs, and whether the begin is not `begun`. Raises
        DataLost for a log that has lost what was read."""
        options = self._options
        expected = {name.topic for name in begun.offsets}
        seen = self._seen = await facts.snapshot_until(
            lambda seen: is_settled(begun, seen), options.selection, expected=expected
        )
        moved = await moved_positions(facts, begun, seen)
        for name, position in moved.items():
            loss = cut_away(name, position.offset, begun.offsets[name])
            lose(loss, fail=options.fail_on_data_loss)
        begun, latest = begun.moved(moved), ends_of(seen)
        for name in progress.behind(begun, latest):
            loss = ended_earlier(name, latest.offsets[name], begun.offsets[name], latest.offsets[name])
            lose(loss, fail=options.fail_on_data_loss)
        return begun, latest, bool(moved)

    def _looked_at(self) -> Snapshot:
        """The logs at the last reading; reads them if there was none."""
        if self._seen is None:
            self._seen = self._ask(lambda facts: facts.snapshot(self._options.selection))
        return self._seen

    def _ask(
        self, work: Callable[[ClusterFacts], Coroutine[Any, Any, T]], *, timeout_s: float | None = None
    ) -> T:
        """Call with the client of this query."""
        if self._facts is None:
            made = self._client(self._options)
            call(made.start())
            self._facts = made
        return call(work(self._facts), timeout_s)
