"""Appends to a task's changelog, as its only writer (CORRECTNESS S8)."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.client.retry import retry
from strandline.config.streams import AT_LEAST_ONCE, StreamsSettings
from strandline.errors import (
    BrokerNotAvailable,
    MessageTooLarge,
    Outcome,
    OutOfOrderSequence,
    StrandlineError,
    UnexpectedOffset,
)
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.ports import Clock
from strandline.producer.producer import Producer
from strandline.streams.core.checkpoint import Checkpoint


class ChangelogWriter:
    """`checkpoint` is at the end that the task found, and later at the end of its own last batch. Nothing is
    missing there: no other writer has appended since.

    A batch is appended at that offset or not at all: the leader refuses it if the log ends elsewhere, because
    then another member runs the task too, or an earlier batch was appended after all. In a transaction it is
    appended wherever the log ends: markers follow each batch, and the group fences other writers.
    """

    def __init__(
        self,
        producer: Producer,
        changelog: TopicPartition,
        *,
        end: int,
        settings: StreamsSettings,
        clock: Clock,
    ) -> None:
        self._is_conditional = settings.processing_guarantee == AT_LEAST_ONCE
        self._producer = producer
        self._name = changelog
        self._settings = settings
        self._clock = clock
        self.checkpoint = Checkpoint(end)

    async def append(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append all changes as one batch; None is a deletion. Raises the errors of a send, and
        UnexpectedOffset also if the outcome is unknown, and if a leader misses earlier batches, as one does
        that was replaced and does not know it: in all cases the task must read the log again."""
        now_ms = self._clock.wall_ms()
        records = [(key, value, (), now_ms) for key, value in changes]
        expected = self.checkpoint.offset if self._is_conditional else None
        try:
            sent = await retry(
                lambda: self._producer.send_records(
                    self._name.topic, self._name.partition, records, expected_offset=expected
                ),
                f"a commit to {self._name} waits",
                settings=self._settings,
                clock=self._clock,
                retriable=lambda error: isinstance(error, BrokerNotAvailable),
                limit_s=self._settings.delivery_timeout_ms / 1000,
            )
            leader_epoch = self._producer.leader_epoch(self._name)
            metadata = await sent
            if self._producer.leader_epoch(self._name) != leader_epoch:
                leader_epoch = NO_EPOCH  # either may have appended it
        except MessageTooLarge as error:
            raise MessageTooLarge(
                f"{len(changes)} changes of state do not fit one message of {self._name}: {error.message}; "
                "a processor may change less a record, or commit_bytes be lower",
                limit=error.limit,
            ) from error
        except StrandlineError as error:
            if error.outcome is Outcome.UNKNOWN or isinstance(error, OutOfOrderSequence):
                raise UnexpectedOffset(
                    f"it is not known what {self._name} has at {self.checkpoint.offset}: {error.message}"
                ) from error
            raise
        self.checkpoint = Checkpoint(metadata.base_offset + len(records), leader_epoch, now_ms)
