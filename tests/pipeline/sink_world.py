"""One partition in memory with several attempts at it, each of which moves only when a test says so.

The broker's own code gives its answers; a change of leaders removes uncommitted batches, and with them the
memory of producers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any

from strandline.broker.core.replication.producer_state import Duplicate, ProducerState
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.pipeline.core.identity import identity_of
from strandline.pipeline.writing.exactly_once import Acked, ExactlyOnceWriter, LogEnd, cut
from strandline.records import BatchHeader, Codec, RecordFields, decode, encode_batch, pack, stamp
from strandline.vocabulary.log import ProducerIdentity

NAME = TopicPartition("orders", 0)
NOW_MS = 1_000


class Turn:
    """An await that lets the others go first."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class World:
    """The log of the partition: batches with their offsets, `committed` of them for good."""

    def __init__(self, *, producers_max: int = 10_000) -> None:
        self.batches: list[bytes] = []
        self.committed = 0
        self.start = 0
        self.epoch = 1
        self.producers_max = producers_max
        self.producers = self._nobody()

    def _nobody(self) -> ProducerState:
        return ProducerState(producers_max=self.producers_max, expiry_ms=1_000_000)

    @property
    def end(self) -> int:
        return BatchHeader.parse(self.batches[-1]).next_offset if self.batches else self.start

    @property
    def committed_end(self) -> int:
        kept = self.batches[: self.committed]
        return BatchHeader.parse(kept[-1]).next_offset if kept else self.start

    def append(self, records: bytes) -> Acked:
        """As a leader does it. Raises what its state of producers refuses."""
        header = BatchHeader.parse(records)
        verdict = self.producers.check(header, NOW_MS)
        if isinstance(verdict, Duplicate):
            return Acked(verdict.base_offset, appended=False)
        base_offset = self.end
        self.producers.record(header, base_offset, NOW_MS)
        self.batches.append(stamp(header, base_offset=base_offset, leader_epoch=self.epoch) + records[16:])
        return Acked(base_offset, appended=True)

    def commit(self) -> None:
        self.committed = len(self.batches)

    def change_leader(self) -> None:
        """Uncommitted records are lost with their leader."""
        del self.batches[self.committed :]
        self.epoch += 1
        self.producers = self._nobody()
        for batch in self.batches:
            header = BatchHeader.parse(batch)
            self.producers.record(header, header.base_offset, NOW_MS)

    def forget(self) -> None:
        """Forgets all producers, as a broker does after many others wrote."""
        self.producers = self._nobody()

    def lose(self, batches: int) -> None:
        """Retention takes the oldest; what is known of producers stays."""
        self.commit()
        end = self.end
        del self.batches[:batches]
        self.committed = len(self.batches)
        self.start = BatchHeader.parse(self.batches[0]).base_offset if self.batches else end

    def records(self) -> list[RecordFields]:
        """All of producers with a computed id, in order."""
        found = b"".join(b for b in self.batches if BatchHeader.parse(b).producer_id >= 0)
        return [(r.key, r.value, r.headers, r.timestamp) for r in decode(found)]

    def add_noise(self) -> None:
        """Another producer's batch."""
        self.append(encode_batch([(b"noise", b"noise", (), 0)]))


class WorldLog:
    """The partition as an attempt's lane sees it. `fate`: what becomes of a request, drawn when it is sent:
    0 it arrives, 1 it is lost before, 2 its answer is lost."""

    def __init__(self, world: World, fate: Callable[[], int]) -> None:
        self._world = world
        self._fate = fate

    async def append(self, records: bytes) -> Acked:
        world = self._world
        while True:
            await Turn()
            fate = self._fate()
            if fate == 1:
                continue
            try:
                acked = world.append(records)
            except StrandlineError:
                await Turn()
                if fate == 2:
                    continue
                raise
            epoch = world.epoch
            await Turn()
            while world.epoch == epoch and world.committed_end <= acked.offset:
                await Turn()
            if world.epoch == epoch and fate == 0:
                return acked

    async def batch_at(self, offset: int) -> bytes:
        await Turn()
        for batch in self._world.batches[: self._world.committed]:
            header = BatchHeader.parse(batch)
            if header.base_offset <= offset < header.next_offset:
                return batch
        return b""

    async def end(self) -> LogEnd:
        await Turn()
        world = self._world
        end, epoch = world.end, world.epoch
        while world.committed_end < end:
            await Turn()
            if world.epoch != epoch:
                end, epoch = world.end, world.epoch
        return LogEnd(world.start, end, epoch)

    async def read(self, start: int, end: int) -> AsyncIterator[bytes]:
        await Turn()
        for batch in list(self._world.batches[: self._world.committed]):
            header = BatchHeader.parse(batch)
            if header.next_offset > start and header.base_offset < end:
                yield batch
                await Turn()


class Attempt:
    """One task's attempt at its rows; `move` takes it to its next await."""

    def __init__(
        self,
        world: World,
        pieces: Sequence[Sequence[RecordFields]],
        *,
        bytes_max: int,
        fate: Callable[[], int] = lambda: 0,
        timed: bool = False,
        compacts: bool = False,
        batch: int = 3,
        window_offsets: int = 3,
    ) -> None:
        def identify(generation: int) -> ProducerIdentity:
            return identity_of("query", 0, batch, generation)

        self.writer = ExactlyOnceWriter(
            NAME,
            WorldLog(world, fate),
            identify,
            codec=Codec.NONE,
            bytes_max=bytes_max,
            timed=timed,
            compacts=compacts,
            window_offsets=window_offsets,
        )
        self.done = False
        self.failure: Exception | None = None
        self._pieces = pieces
        self._bytes_max = bytes_max
        self.asked = 0
        """How often the rows of a packed batch were asked for."""
        self._work: Coroutine[Any, Any, None] | None = None

    async def _write(self, pieces: Sequence[Sequence[RecordFields]]) -> None:
        """In both ways, in turn: as rows, and packed in batches that fit."""
        for number, rows in enumerate(pieces):
            if number % 2:
                await self.writer.write(rows)
            else:
                for batch in cut(rows, self._bytes_max):
                    await self.writer.write_batch(pack(batch), partial(self._asked, batch))

    def _asked(self, rows: Sequence[RecordFields]) -> Sequence[RecordFields]:
        self.asked += 1
        return rows

    @property
    def ended(self) -> bool:
        return self.done or self.failure is not None

    def move(self) -> None:
        if self._work is None:
            self._work = self._write(self._pieces)
        try:
            self._work.send(None)
        except StopIteration:
            self.done = True
        except StrandlineError as error:
            self.failure = error

    def crash(self) -> None:
        if self._work is not None:
            self._work.close()
        self.failure = RuntimeError("killed")

    def finish(self, world: World) -> None:
        """To the end, with all that happens committed at once."""
        for _ in range(10_000):
            if self.ended:
                break
            self.move()
            world.commit()
        assert self.ended, "the attempt does not come to an end"
        if self.failure is not None:
            raise self.failure
