"""FindCoordinator: the broker that coordinates a group, or a transactional id."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Writer

GROUP: Final = 0
TRANSACTION: Final = 1


class FindCoordinatorRequest(NamedTuple):
    """One key before version 4, several from there on."""

    keys: tuple[str, ...]
    kind: int = GROUP


class FoundCoordinator(NamedTuple):
    key: str
    error: int = 0
    message: str | None = None
    broker: int = -1
    host: str = ""
    port: int = -1


class FindCoordinatorAnswer(NamedTuple):
    """One for each key, in the order of the request."""

    found: tuple[FoundCoordinator, ...]


def read_request(reader: Reader, version: int) -> FindCoordinatorRequest:
    if version >= 4:
        kind = reader.int8()
        return FindCoordinatorRequest(reader.array(Reader.string, bytes_min=1), kind)
    key = reader.string()
    return FindCoordinatorRequest((key,), reader.int8() if version >= 1 else GROUP)


def write_answer(writer: Writer, answer: FindCoordinatorAnswer, version: int) -> None:
    def write_address(found: FoundCoordinator) -> None:
        writer.int32(found.broker)
        writer.string(found.host)
        writer.int32(found.port)

    def write_one(found: FoundCoordinator) -> None:
        writer.string(found.key)
        write_address(found)
        writer.int16(found.error)
        writer.string(found.message)
        writer.tags()

    if version >= 1:
        writer.throttle_time()
    if version >= 4:
        writer.array(answer.found, write_one)
    else:
        (found,) = answer.found
        writer.int16(found.error)
        if version >= 1:
            writer.string(found.message)
        write_address(found)
    writer.tags()
