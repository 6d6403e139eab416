"""InitProducerId."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import INIT_PRODUCER_ID
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer, InitProducerIdRequest
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def request(asked: Values, version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(asked["transactional_id"])


def answer(found: Values, version: int) -> InitProducerIdAnswer:
    return InitProducerIdAnswer(found["producer_id"], found["producer_epoch"], found["error_code"])


MAPPED: Final = (Mapped(INIT_PRODUCER_ID, request, answer),)
