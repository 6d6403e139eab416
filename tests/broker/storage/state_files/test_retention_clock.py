"""Retention on a machine whose clock jumps."""

from __future__ import annotations

from pathlib import Path

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.replicas.upkeep.retention import apply_retention
from strandline.broker.storage.state_files.retention_clock import RetentionClock
from strandline.ids import Offset
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import CLOCK, batch
from tests.broker.support.seat import seated
from tests.waiting import eventually

DAY_MS = 86_400_000


class JumpingClock(SystemClock):
    """The system's clock, with a wall clock that can be set wrong, and a count of its reads."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.sleeps = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        await super().sleep(seconds)


async def test_a_jump_of_the_wall_clock_deletes_nothing(tmp_path: Path) -> None:
    """It did: at the next look everything was older than `retention.ms`."""
    clock = JumpingClock()
    config = TopicConfig(segment_bytes=1024, retention_ms=7 * DAY_MS)
    async with seated(tmp_path, clock=clock, retention_check_ms=50) as seat:
        seat.lead(6)
        replica = seat.replica
        seat.manager.reconfigure(replica, replica.assignment, config)
        for _ in range(5):
            replica.log.appending.as_leader(batch("x" * 600), 6, now_ms=CLOCK.wall_ms())
        replica.raise_watermark(Offset(5))
        running = seat.tasks.create_task(apply_retention(seat.manager))
        await eventually(lambda: clock.sleeps >= 2, what="retention has looked")
        clock.ahead_ms = 3_650 * DAY_MS
        looks = clock.sleeps
        await eventually(lambda: clock.sleeps >= looks + 3, what="retention has looked again")
        assert (replica.log.log_start_offset, replica.log.segment_count) == (0, 5)
        running.cancel()


def test_the_next_process_continues_from_the_knowledge_of_the_last_one(tmp_path: Path) -> None:
    """One that starts with a wrong clock has nothing else to hold it against."""
    clock, path = JumpingClock(), tmp_path / "retention_time"
    first = RetentionClock(path, clock, SYSTEM_FILES)
    known = first.now_ms()
    first.save(known)
    clock.ahead_ms = 3_650 * DAY_MS
    assert RetentionClock(path, clock, SYSTEM_FILES).now_ms() <= known + DAY_MS
    path.write_bytes(b"{")  # torn by a loss of power
    assert RetentionClock(path, clock, SYSTEM_FILES).now_ms() > known + 3_000 * DAY_MS, (
        "it begins with the wall clock"
    )
