"""A change that sends one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from strandline.client.arguments import INT32_MAX
from strandline.console.clients import Clients
from strandline.console.core.changes import Effect, Ended, Place
from strandline.console.core.forms import Form
from strandline.console.core.records.sending import (
    TEXT_CHARS_MAX,
    NewRecord,
    bytes_of,
    headers_of,
    sending,
)

DELIVERY_MS: Final = 10_000
HEADERS_CHARS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class SendRecord:
    """One record, sent with acks=all."""

    record: NewRecord

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        key = form.raw("key", chars_max=TEXT_CHARS_MAX)
        # A field that is left empty is no key: an empty key has to be meant, as hex.
        key_form = form.choice("key_form", ("text", "hex")) if key else "null"
        value = form.raw("value", chars_max=TEXT_CHARS_MAX)
        return cls(
            NewRecord(
                form.needed("topic"),
                form.whole_or_none("partition", 0, INT32_MAX),
                bytes_of("key", key, key_form),
                bytes_of("value", value, form.choice("value_form", ("text", "hex", "null"))),
                headers_of(form.raw("headers", chars_max=HEADERS_CHARS_MAX)),
            )
        )

    @property
    def place(self) -> Place:
        return Place(topic=self.record.topic, partition=self.record.partition)

    async def plan(self, clients: Clients) -> Effect:
        """Raises UnknownTopicOrPartition, InvalidRequest."""
        (topic,) = (await clients.admin.metadata([self.record.topic])).topics
        return sending(self.record, topic)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the broker's refusal, such as MessageTooLarge or NotEnoughReplicas."""
        record = self.record
        async with clients.producer(
            client_id="strandline-console", delivery_timeout_ms=DELIVERY_MS
        ) as producer:
            sent = await producer.send_and_wait(
                record.topic, record.value, record.key, partition=record.partition, headers=record.headers
            )
        path = f"/topics/{record.topic}/{sent.partition}/records/{sent.offset}"
        return Ended.done(
            f"The record has offset {sent.offset} in {record.topic}-{sent.partition}.", see=path
        )
