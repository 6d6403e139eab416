"""An unsteady topic: who writes and reads it, what its log holds in the end, and how they are judged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from strandline.auditing import checks, closed_topic
from strandline.auditing.recording import Recorder, content
from strandline.auditing.reference import Logged, Span
from strandline.consumer.consumer import Consumer
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.lives import Lives
from strandline_lab.simulation.workloads.producing import producing
from strandline_lab.simulation.workloads.topic import has_read
from strandline_lab.simulation.workloads.unsteady import judge, readers, writers
from strandline_lab.simulation.workloads.unsteady.judge import Heard
from strandline_lab.simulation.workloads.unsteady.readers import IN_GROUPS, Reader
from strandline_lab.simulation.workloads.unsteady.writers import Writer
from strandline_lab.simulation.workloads.workload import joined

READ_S_MAX: Final = 45.0
"""After the last record: until each reader has read everything."""
LOOK_S: Final = 0.5
GET_MS_MAX: Final = 500
MAY_REPEAT: Final = frozenset({checks.DUPLICATED.name, checks.REORDERED.name})
"""A producer that is not idempotent sends again what may have arrived."""


class UnsteadyTopic:
    """The topic `name` with at least `partitions`. Each client of a group has many lives."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: int,
        kinds: Sequence[readers.Kind],
        change_s: float,
        *,
        latest: bool = False,
        **settings: Any,
    ) -> None:
        """`kinds`: of the readers. `latest`: members of strandline begin at the end of what is there when
        their group begins. `settings`: of those of strandline that a group has."""
        self._stage = stage
        self.name = name
        self._partitions = partitions
        self._settings = settings
        self._latest = latest
        self.may_write = asyncio.Event()
        """Set by who made it, if it is `latest`."""
        if not latest:
            self.may_write.set()
        self.wrong: list[str] = []
        self.writers: list[Writer] = []
        self.written = asyncio.Event()
        """Every writer has finished."""
        self.log: list[Heard] = []
        """All records, once `read_all` has returned."""
        self._extra = Recorder(f"{name} operator", name)
        self._extras = 0
        self._alone: dict[str, list[Heard]] = {}
        self._groups: dict[str, list[Heard]] = {}
        self._by_themselves = [
            self._reader(
                kind, f"{name} {kind} {number}", self._alone.setdefault(f"{name} {kind} {number}", [])
            )
            for number, kind in enumerate(kinds)
            if kind not in IN_GROUPS
        ]
        self._in_groups = [kind for kind in kinds if kind in IN_GROUPS]
        self._lives = Lives(stage, f"{name} readers", len(self._in_groups), change_s, self._start)

    # --- clients -----------------------------------------------------------------------------

    def add_writer(self, kind: writers.Kind, pause_s: float) -> None:
        client = self._stage.client(f"{self.name} writer {len(self.writers)}")
        self.writers.append(
            Writer(kind, client, self._stage, self.name, self._partitions, pause_s, self.wrong)
        )

    def _reader(self, kind: readers.Kind, name: str, heard: list[Heard], **settings: Any) -> Reader:
        process = self._stage.client(name)
        return Reader(kind, process, self._stage, self.name, self._partitions, heard, self.wrong, **settings)

    def _start(self, number: int, life: int) -> Reader:
        kind = self._in_groups[number]
        name = f"{self.name} {kind} {number}"
        group = f"{name} group" if kind == "keeping" else f"{self.name} {kind} group"
        given = {"group_id": group, "client_id": name, **self._settings}
        if self._latest and kind == "member":
            given["offset_reset"] = "latest"
        heard = self._groups.setdefault(group, [])
        begun = self._reader(kind, f"{name} life {life}", heard, **given)
        begun.start()
        return begun

    @property
    def readers(self) -> list[Reader]:
        """Those that run."""
        return [*self._by_themselves, *self._lives.running]

    @property
    def has_formed(self) -> bool:
        """Members of strandline have their first assignment."""
        lives = [*self._lives.running, *(life for life, _ in self._lives.ended)]
        return any(life.assigned for life in lives if life.kind == "member")

    async def run(self, replaced: asyncio.Event, partitions: Callable[[], int]) -> None:
        """Returns after `end`. Once `replaced` is set the topic stays, with this number of partitions."""
        for reader in self._by_themselves:
            reader.start()
        async with asyncio.TaskGroup() as tasks:
            if self._in_groups:
                tasks.create_task(self._lives.run())
            await self.may_write.wait()
            async with asyncio.TaskGroup() as writing:
                for writer in self.writers:
                    writing.create_task(joined(writer.process.run(writer.run(replaced, partitions))))
            self.written.set()

    async def end(self, host: Host, partitions: int) -> None:
        """Read the log, wait until each reader has read it too, and have all leave."""
        await self.written.wait()
        for reader in self.readers:
            reader.process.resume()
        await self.read_all(host, partitions)
        ends_s = self._stage.now_s + READ_S_MAX
        while self._stage.now_s < ends_s and any(self._unread()):
            await host.clock.sleep(LOOK_S)
        for reader in self._by_themselves:
            reader.leave.set()
            await reader.process.ended
        if self._in_groups:
            await self._lives.end()

    # --- what an operator writes and reads ----------------------------------------------------

    async def write(self, host: Host, partitions: Sequence[int | None]) -> None:
        """Write a record to each of these partitions, None for any, with a producer of its own. Returns once
        each is acknowledged or has failed."""
        given = {"delivery_timeout_ms": writers.DELIVERY_TIMEOUT_MS}
        async with producing(self._stage.cluster.bootstrap, host, **given) as producer:
            for partition in partitions:
                self._extras += 1
                value = writers.value(f"{self.name} operator", self._extras)
                self._extra.sent(self._extras, None, value, partition)
                try:
                    _ = await producer.send(self.name, value, partition=partition)
                except StrandlineError as error:
                    self._extra.failed(self._extras, error)
            await producer.flush()

    async def read_all(self, host: Host, partitions: int) -> None:
        """Read all that is there. A broker that was paused may name an old end, as long as it does not know
        that it was replaced: so one more record is written to each partition first."""
        names = [TopicPartition(self.name, number) for number in range(partitions)]
        ends: dict[TopicPartition, int] = {}
        async with producing(self._stage.cluster.bootstrap, host) as producer:
            for name in names:
                self._extras += 1
                value = writers.value(f"{self.name} operator", self._extras)
                self._extra.sent(self._extras, None, value, name.partition)
                acked = await producer.send_and_wait(self.name, value, partition=name.partition)
                self._extra.acked(self._extras, name.partition, acked.offset)
                ends[name] = acked.offset + 1
        found: list[Heard] = []
        async with Consumer(self._stage.cluster.bootstrap, host=host, offset_reset="earliest") as consumer:
            consumer.assign(names)
            while not await has_read(consumer, ends):
                for batch in await consumer.getbatches(timeout_ms=GET_MS_MAX):
                    epoch = batch.header.leader_epoch
                    found += [Heard(batch.partition, r.offset, epoch, r.value) for r in batch.records()]
        self.log = sorted(found, key=lambda each: each[:2])

    # --- judgement ---------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """What is wrong with what clients saw, and with what became of them."""
        if not self.log:
            return [*self.wrong]
        lines = [*self._read_wrong(), *self._written_wrong(), *self._stopped(), *self._lives.defects]
        return [*dict.fromkeys(lines), *dict.fromkeys(self.wrong)]

    def _unread(self) -> Iterator[str]:
        """Records of the log that a reader lacks, by the sentences of the judge."""
        topics, cuts = self._topic_of, self._stage.isr_history.cuts(self.name)
        back = judge.gone_back([*self._alone.values(), *self._groups.values()], self.log)
        for reader in self._by_themselves:
            name = reader.process.name
            heard, log = self._alone[name], self._log_of(name)
            if reader.kind == "kafka":
                heard, log = judge.without(back, heard), judge.without(back, log)
            yield from judge.by_itself(name, heard, log, topics, cuts)
        for name, heard in self._groups.items():
            log = judge.without(back, self._log_of(name))
            yield from judge.in_a_group(name, judge.without(back, heard), log, topics)

    def _log_of(self, reader: str) -> list[Heard]:
        """A reader by assignment, and a Kafka client, knows only the partitions that the topic always has."""
        if reader == f"{self.name} member group":
            return self.log
        return [each for each in self.log if each.partition < self._partitions]

    def _read_wrong(self) -> Iterator[str]:
        yield from self._unread()
        yield from judge.of_two_kinds({**self._alone, **self._groups}, self.log)

    def _topic_of(self, partition: int, epoch: int) -> int:
        return self._stage.isr_history.topic_number(TopicPartition(self.name, partition), epoch)

    def _written_wrong(self) -> Iterator[str]:
        for writer in self.writers:
            yield from writer.undelivered()
        ends = {each.partition: each.offset + 1 for each in self.log}
        spans = {(self.name, number): Span(0, end) for number, end in ends.items()}
        log = [Logged(self.name, each.partition, each.offset, content(None, each.value)) for each in self.log]
        histories = [*(writer.recorder.history for writer in self.writers), self._extra.history]
        repeating = tuple(writer.name for writer in self.writers if writer.may_repeat)
        by: dict[tuple[int | None, int | None], str] = {
            (each.partition, each.offset): (each.value or b"").decode() for each in self.log
        }
        for found in closed_topic.findings(histories, log, spans):
            place = (found.partition, found.offset)
            if found.check in MAY_REPEAT and by.get(place, "").startswith(repeating):
                continue
            yield found.sentence

    def _stopped(self) -> Iterator[str]:
        """Readers that ended with an error: nothing that is done here is a reason to."""
        ended: Mapping[str, BaseException | None] = {
            reader.process.name: reader.process.defect
            for reader in [*self._by_themselves, *(life for life, _ in self._lives.ended)]
        }
        for name, error in ended.items():
            if error is not None:
                yield f"{name} has stopped: {error!r}"
