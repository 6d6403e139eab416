"""InitProducerId: an identity for an idempotent producer."""

from __future__ import annotations

from typing import NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer


class InitProducerIdRequest(NamedTuple):
    """The rest of a request, the identity that the client had, decides nothing here."""

    transactional_id: str | None


class InitProducerIdAnswer(NamedTuple):
    producer_id: int = -1
    producer_epoch: int = -1
    error: int = 0


def read_request(reader: Reader, version: int) -> InitProducerIdRequest:
    transactional_id = reader.nullable_string()
    reader.int32()  # how long a transaction may take
    if version >= 3:
        reader.int64()  # the producer's id so far
        reader.int16()  # its epoch
    return InitProducerIdRequest(transactional_id)


def write_answer(writer: Writer, answer: InitProducerIdAnswer, version: int) -> None:
    writer.throttle_time()
    writer.int16(answer.error)
    writer.int64(answer.producer_id)
    writer.int16(answer.producer_epoch)
    writer.tags()
