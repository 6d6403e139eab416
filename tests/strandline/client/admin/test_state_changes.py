"""Following the stream of state changes over controllers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from strandline import Admin
from strandline.adapters.codecs.admin import STATE_CHANGES
from strandline.adapters.codecs.log import METADATA
from strandline.client.admin.state_changes import BREAKS_MAX
from strandline.errors import (
    BrokerNotAvailable,
    InvalidRequest,
    LeaderHint,
    NotController,
    OffsetOutOfRange,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ports import Method, Request, Response, Stream, StreamEnded
from strandline.vocabulary.admin import StateChangesAnswer, StateChangesQuery
from strandline.vocabulary.log import MetadataAnswer
from strandline.vocabulary.metadata import ClusterMetadata
from strandline.vocabulary.state_changes import StateChangeEvent, event_value
from tests.integration.support.made_up_events import REQUESTED
from tests.strandline.client.network import FastClock, endpoint, memory_host

Answer = StateChangesAnswer | StrandlineError
END = StreamEnded("the controller ended the stream")
BREAK = OutcomeUnknown("the stream broke")


def event(number: int) -> StateChangeEvent:
    return replace(REQUESTED, id=str(number), topic="t")


def answer_of(*numbers: int, at: int | None = None) -> StateChangesAnswer:
    events = [event_value(event(number)) for number in numbers]
    return StateChangesAnswer(events, () if at is None else (at,))


ON = answer_of()


class Controllers:
    """`Transport` to a broker that knows of controller 1, and to controllers: each stream has its answers."""

    def __init__(self, *streams: list[Answer], again: Callable[[], list[Answer]] | None = None) -> None:
        self._streams = iter(streams)
        self._again = again
        self.asked: list[tuple[str, StateChangesQuery]] = []
        self.open_streams = 0

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        assert method.path == METADATA.path, method.path
        await asyncio.sleep(0)
        answer: Any = MetadataAnswer(ClusterMetadata("c", (endpoint(9),), endpoint(1), ()), {})
        return answer  # type: ignore[no-any-return]  # the method's own

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        assert method.path == STATE_CHANGES.path
        answers = next(self._streams, None)
        if answers is None:
            answers = [] if self._again is None else self._again()
        if not answers:
            raise BrokerNotAvailable(f"{address} is unreachable from here")
        stream: Any = AnswerStream(self, address, iter(answers))
        return stream  # type: ignore[no-any-return]  # the method's own

    async def close(self) -> None:
        assert self.open_streams == 0


class AnswerStream:
    def __init__(self, controllers: Controllers, address: str, answers: Iterator[Answer]) -> None:
        self._controllers = controllers
        self._address = address
        self._answers = answers
        self._closed = False
        controllers.open_streams += 1

    async def write(self, request: StateChangesQuery) -> None:
        self._controllers.asked.append((self._address, request))

    async def read(self) -> StateChangesAnswer:
        await asyncio.sleep(0)
        answer = next(self._answers)
        if isinstance(answer, StrandlineError):
            raise answer
        return answer

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._controllers.open_streams -= 1


async def read(controllers: Controllers, **asked: Any) -> list[int]:
    """The numbers of all events, until the reading ends."""
    async with Admin("broker9:9092", host=memory_host(controllers, FastClock())) as admin:
        return [int(each.id) async for each in admin.state_changes(**asked)]


def offsets(controllers: Controllers) -> list[tuple[int, ...]]:
    return [query.from_offsets for _, query in controllers.asked]


async def test_the_stream_continues_at_the_offsets_of_the_last_answer() -> None:
    controllers = Controllers(
        [ON, answer_of(1, at=5), answer_of(2, at=6), BREAK], [ON, answer_of(3, at=9), END]
    )
    assert await read(controllers) == [1, 2, 3]
    assert offsets(controllers) == [(), (6,)]


async def test_a_record_from_two_controllers_is_returned_once() -> None:
    """The next one does not know which records the previous one sent after its last offsets."""
    controllers = Controllers([ON, answer_of(1, at=5), answer_of(2), BREAK], [ON, answer_of(2, 3, at=8), END])
    assert await read(controllers) == [1, 2, 3]
    assert offsets(controllers) == [(), (5,)]


async def test_the_stream_follows_the_controller_that_the_last_one_names() -> None:
    hint = LeaderHint(2, "broker2", 9092, 7)
    controllers = Controllers([ON, answer_of(1, at=1), NotController("over", leader=hint)],
                              [NotController("over", leader=hint)],
                              [ON, answer_of(2, at=2), END])  # fmt: skip
    assert await read(controllers) == [1, 2]
    assert [address for address, _ in controllers.asked] == ["broker1:9092", "broker1:9092", "broker2:9092"]


async def test_a_follower_continues_where_a_stream_ended_in_order() -> None:
    controllers = Controllers(
        [ON, answer_of(1, at=1), END], [ON, answer_of(2, at=2), InvalidRequest("enough")]
    )
    async with Admin("broker9:9092", host=memory_host(controllers, FastClock())) as admin:
        found: list[str] = []
        with pytest.raises(InvalidRequest, match="enough"):
            async for each in admin.state_changes(follow=True):
                found.append(each.id)
    assert found == ["1", "2"]


async def test_an_error_that_no_other_controller_can_fix_is_raised() -> None:
    controllers = Controllers([ON, answer_of(1, at=1), OffsetOutOfRange("offset 7 is behind the end")])
    with pytest.raises(OffsetOutOfRange):
        await read(controllers)
    assert controllers.open_streams == 0


async def test_a_missing_controller_is_reported_after_the_request_timeout() -> None:
    controllers = Controllers([ON, answer_of(1, at=1), BREAK])
    with pytest.raises(NotController, match="no active controller"):
        await read(controllers, follow=True)


async def test_streams_that_break_silently_are_not_opened_forever() -> None:
    controllers = Controllers(again=lambda: [ON, BREAK])
    with pytest.raises(OutcomeUnknown):
        await read(controllers, follow=True)
    assert len(controllers.asked) == BREAKS_MAX + 1


async def test_a_caller_that_stops_early_closes_the_stream() -> None:
    controllers = Controllers([ON, answer_of(1, 2, at=2), END])
    async with Admin("broker9:9092", host=memory_host(controllers, FastClock())) as admin:
        changes = admin.state_changes()
        assert (await anext(changes)).id == "1"
        assert controllers.open_streams == 1
        await changes.aclose()
        assert controllers.open_streams == 0


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"brokers": 3}, "brokers = 3"),
        ({"brokers": "12"}, "brokers = '12'"),
        ({"brokers": [-1]}, "broker = -1"),
        ({"brokers": [True]}, "broker = True"),
        ({"topic": 5}, "topic = 5"),
        ({"partition": 0}, "partition = 0 without a topic"),
        ({"topic": "t", "partition": -1}, "partition = -1"),
        ({"since_ms": -1}, "since_ms = -1"),
        ({"since_ms": 1.5}, "since_ms = 1.5"),
    ],
)
async def test_nonsense_is_refused_before_any_request(asked: dict[str, Any], says: str) -> None:
    controllers = Controllers()
    with pytest.raises(InvalidRequest) as caught:
        await read(controllers, **asked)
    assert says in caught.value.message
    assert controllers.asked == []
