"""FindCoordinator."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.apis import FIND_COORDINATOR
from strandline.broker.kafka.wire.coordinator import (
    FindCoordinatorAnswer,
    FindCoordinatorRequest,
    FoundCoordinator,
)
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def request(asked: Values, version: int) -> FindCoordinatorRequest:
    keys = asked["coordinator_keys"] if version >= 4 else [asked["key"]]
    return FindCoordinatorRequest(tuple(keys), asked.get("key_type", 0))


def answer(found: Values, version: int) -> FindCoordinatorAnswer:
    each = found["coordinators"] if version >= 4 else [found]
    return FindCoordinatorAnswer(
        tuple(
            FoundCoordinator(
                c.get("key", ""), c["error_code"], c.get("error_message"), c["node_id"], c["host"], c["port"]
            )
            for c in each
        )
    )


MAPPED: Final = (Mapped(FIND_COORDINATOR, request, answer),)
