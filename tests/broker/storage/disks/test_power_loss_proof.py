"""A log that says that it is whole after a loss of power is: nothing that counted is missing (E2, E3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.sync_state import AT_REST_S
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import FOLDER, ManualClock, anchored, append, open_log

EACH = TopicConfig(flush_messages=1, segment_bytes=1024)
NEVER = TopicConfig(segment_bytes=1024)


def begun(config: TopicConfig, clock: ManualClock | None = None) -> tuple[PartitionLog, MemoryFiles]:
    """A new log that is on the medium, and leads."""
    files = MemoryFiles()
    log = open_log(files, config=config, clock=clock)
    anchored(log)
    log.appending.begin_epoch(1)
    return log, files


def counted(log: PartitionLog) -> int:
    """Append a record and have it count, as leaders and followers do; the LEO that others rely on then."""
    append(log, b"x" * 100)
    if log.needs_flush(0):
        log.flush()
    return log.log_end_offset


def after_power_loss(files: MemoryFiles) -> PartitionLog:
    """Nothing that was not synced is left."""
    return open_log(files.after_power_loss(lambda _: 0), power_lost=True)


def test_a_log_that_syncs_each_record_is_known_to_be_whole() -> None:
    """CORRECTNESS E3: with `flush.messages=1` the log needs no other replica after a loss of power."""
    log, files = begun(EACH)
    end = [counted(log) for _ in range(20)][-1]
    found = after_power_loss(files)
    assert (found.provenance.survives_power_loss, found.log_end_offset) == (True, end)


def test_a_log_that_nothing_was_appended_to_is_whole() -> None:
    """CORRECTNESS E3: it costs no write to know that, neither of a new log nor of one that was closed."""
    log, files = begun(NEVER)
    assert after_power_loss(files).provenance.survives_power_loss
    counted(log)
    log.close(clean=True)
    files = files.after_crash()
    log = open_log(files)
    before = files.operations
    log.close(clean=True)
    assert files.operations == before
    found = after_power_loss(files)
    assert (found.provenance.survives_power_loss, found.log_end_offset) == (True, 1)


def test_the_first_record_that_counts_unsynced_ends_the_proof() -> None:
    """CORRECTNESS E2, E3: it is synced itself, with the word that the next ones are not."""
    log, files = begun(NEVER)
    counted(log)
    assert not log.needs_flush(0)
    counted(log)
    found = after_power_loss(files)
    assert (found.provenance.survives_power_loss, found.log_end_offset) == (False, 1)


def test_a_log_from_before_is_whole_once_all_of_it_was_synced() -> None:
    """CORRECTNESS E3: one whose topic got `flush.messages=1` later, or that an earlier version made."""
    log, files = begun(NEVER)
    for _ in range(5):
        counted(log)
    log.reconfigure(EACH)
    assert not after_power_loss(files).provenance.survives_power_loss
    end = counted(log)
    found = after_power_loss(files)
    assert (found.provenance.survives_power_loss, found.log_end_offset) == (True, end)


def test_records_that_count_while_a_flush_runs_keep_it_from_promising_anything() -> None:
    """CORRECTNESS E3: the flush is in a thread; the config changes and changes back beside it."""
    log, files = begun(NEVER)
    for _ in range(3):
        counted(log)
    log.reconfigure(EACH)
    append(log, b"x" * 100)

    def meanwhile(operation: str, path: Path) -> int | None:
        if operation == "sync" and path.suffix == ".log":
            files.fault = None
            log.reconfigure(NEVER)
            append(log, b"counts at once")
            assert not log.needs_flush(0)
            log.reconfigure(EACH)
        return None

    files.fault = meanwhile
    log.flush()
    assert files.fault is None
    assert not after_power_loss(files).provenance.survives_power_loss


def test_a_log_at_rest_is_synced_and_whole_until_the_next_record_counts() -> None:
    """CORRECTNESS E3: under any flush policy, a loss of power takes nothing from a quiet partition."""
    clock = ManualClock()
    log, files = begun(NEVER, clock)
    for _ in range(3):
        counted(log)
    assert not log.is_at_rest(clock.monotonic())
    clock.ms += int(AT_REST_S * 1000)
    assert log.is_at_rest(clock.monotonic())
    log.flush()
    assert not log.is_at_rest(clock.monotonic())
    found = after_power_loss(files)
    assert (found.provenance.survives_power_loss, found.log_end_offset) == (True, 3)
    append(log, b"first after the rest")
    assert log.needs_flush(clock.monotonic())
    log.flush()
    found = after_power_loss(files)
    assert (found.provenance.survives_power_loss, found.log_end_offset) == (False, 4)


@pytest.mark.parametrize("lost", ["log.json", "all"])
def test_a_log_whose_beginning_is_not_on_the_medium_has_not_begun(lost: str) -> None:
    """CORRECTNESS E2: `log.json` is written last, so without it nothing here was ever relied on."""
    log, files = begun(EACH)
    counted(log)
    for name in files.sizes(FOLDER):
        if lost in (name, "all"):
            files.remove(FOLDER / name)
    found = open_log(files, clean=False)
    assert not found.provenance.anchored
    assert not found.provenance.survives_power_loss


class Power(RuleBasedStateMachine):
    """Appends, flushes, changes of config, kills and losses of power in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.log, self.files = begun(NEVER, self.clock)
        self.relied_on = 0
        self.epoch = 1

    def _relied(self, end: int) -> None:
        self.relied_on = max(self.relied_on, end)

    @rule(flushed=st.booleans())
    def appends(self, flushed: bool) -> None:
        append(self.log, b"x" * 100)
        if not self.log.needs_flush(self.clock.monotonic()):
            self._relied(self.log.log_end_offset)
        elif flushed:
            self.flushes()

    @rule()
    def rests(self) -> None:
        self.clock.ms += int(AT_REST_S * 1000)
        self.flushes()

    @rule()
    def flushes(self) -> None:
        self.log.flush()
        self._relied(self.log.log_end_offset)

    @rule(config=st.sampled_from([EACH, NEVER]))
    def is_reconfigured(self, config: TopicConfig) -> None:
        self.log.reconfigure(config)

    def _reopen(
        self, files: MemoryFiles, *, clean: bool = False, power_lost: bool = False, config: TopicConfig
    ) -> None:
        self.files = files
        self.log = open_log(files, clean=clean, power_lost=power_lost, config=config, clock=self.clock)
        self.epoch += 1
        self.log.appending.begin_epoch(self.epoch)

    @rule(clean=st.booleans(), config=st.sampled_from([EACH, NEVER]))
    def starts_again(self, clean: bool, config: TopicConfig) -> None:
        self.log.close(clean=clean)
        self._reopen(self.files.after_crash(), clean=clean, config=config)
        assert self.log.log_end_offset >= self.relied_on

    @rule(data=st.data(), config=st.sampled_from([EACH, NEVER]))
    def loses_power(self, data: Any, config: TopicConfig) -> None:
        files = self.files.after_power_loss(
            lambda n: data.draw(st.integers(0, n)), lambda n: data.draw(st.sets(st.integers(0, n - 1)))
        )
        self._reopen(files, power_lost=True, config=config)
        if self.log.provenance.survives_power_loss:
            assert self.log.log_end_offset >= self.relied_on
        self.relied_on = self.log.log_end_offset

    @invariant()
    def may_lead(self) -> None:
        assert (self.log.failed, self.log.corrupt) == (None, None)


TestPower = Power.TestCase
TestPower.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
