"""Between protobuf and the clients' own types: the stream `Admin.StateChanges`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from strandline.adapters.rpc.wire_errors import refuse
from strandline.client.messages import StateChangesAnswer, StateChangesQuery
from strandline.ports import Method
from strandline.rpc import admin_pb2
from strandline.vocabulary.state_changes import StateChangeEvent, parse_event

logger = logging.getLogger(__name__)


def _encode(query: StateChangesQuery) -> bytes:
    return admin_pb2.StateChangesRequest(
        brokers=query.brokers,
        topic=query.topic,
        partition=query.partition,
        follow=query.follow,
        from_offsets=query.from_offsets,
        since_ms=query.since_ms,
    ).SerializeToString()


def _decode(data: bytes) -> StateChangesAnswer:
    message = admin_pb2.StateChangesResponse.FromString(data)
    refuse(message.error)
    return StateChangesAnswer(tuple(_understood(message.events)), tuple(message.next_offsets))


def _understood(values: Iterable[bytes]) -> Iterator[StateChangeEvent]:
    """A controller of a later version may tell of what this client has no word for."""
    for value in values:
        try:
            yield parse_event(value)
        except ValueError as error:
            logger.warning("a state change is passed over: %s", error)


STATE_CHANGES: Final = Method("/strandline.v1.Admin/StateChanges", _encode, _decode)
