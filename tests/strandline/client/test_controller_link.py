"""The link to the active controller: one search for one answer, and results topic by topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from strandline.adapters.codecs.admin import CREATE_TOPICS
from strandline.client.controller_link import ControllerLink
from strandline.config.client import ClientSettings
from strandline.errors import (
    BrokerNotAvailable,
    InvalidConfig,
    LeaderHint,
    NotController,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ports import Method, Request, Response, Stream
from strandline.vocabulary.admin import CreateTopics, NewTopic, TopicResult
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint
from tests.strandline.client.network import FastClock

OLD, NEW = Endpoint(1, "old", 1), Endpoint(2, "new", 2)
ASKED = CreateTopics([NewTopic("a"), NewTopic("b")], validate_only=False)
Answer = Callable[[], list[TopicResult]]


def raising(error: StrandlineError) -> Answer:
    def answer() -> list[TopicResult]:
        raise error

    return answer


def with_results(**errors: StrandlineError | None) -> Answer:
    return lambda: [TopicResult(name, error, "id") for name, error in errors.items()]


DONE = with_results(a=None, b=None)


class Controllers:
    """A transport to controllers with an answer each, and what ZooKeeper says of the active one."""

    def __init__(self, known: Endpoint | None, **answers: Answer) -> None:
        self.known = known
        self.answers = answers
        self.asked: list[str] = []
        self.looks = 0
        self.clock = FastClock()
        self.link = ControllerLink(
            self.find, settings=ClientSettings(), transport=self, clock=self.clock, wait_s=2
        )

    async def find(self) -> ClusterMetadata:
        self.looks += 1
        return ClusterMetadata("c", (), self.known, (), "" if self.known else "ZooKeeper is away")

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        host, _, _ = address.partition(":")
        self.asked.append(host)
        answer: Any = self.answers[host]()
        return answer  # type: ignore[no-any-return]  # the method's own

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        raise BrokerNotAvailable(f"{address} takes no streams")

    async def close(self) -> None:
        self.answers.clear()

    async def create(self) -> Sequence[TopicResult]:
        return await self.link.call(CREATE_TOPICS, ASKED)


async def test_the_refusal_of_one_topic_is_a_result_beside_those_of_the_others() -> None:
    """Who passes requests on needs an answer for each topic."""
    controllers = Controllers(NEW, new=with_results(a=InvalidConfig("no"), b=None))
    found = {result.topic: result.error for result in await controllers.create()}
    assert isinstance(found["a"], InvalidConfig) and found["b"] is None
    await controllers.create()
    assert (controllers.asked, controllers.looks) == (["new", "new"], 1), "it is looked up once"


@pytest.mark.parametrize("in_a_result", [True, False])
async def test_a_controller_that_is_no_longer_active_names_the_next(in_a_result: bool) -> None:
    """Nothing was done then, so the request is sent there at once."""
    error = NotController("not active", leader=LeaderHint(NEW.id, NEW.host, NEW.port, 0))
    first = with_results(a=error, b=error) if in_a_result else raising(error)
    controllers = Controllers(OLD, old=first, new=DONE)
    await controllers.create()
    assert (controllers.asked, controllers.clock.now) == (["old", "new"], 0)


async def test_an_unreachable_controller_is_looked_up_again_until_the_time_is_over() -> None:
    """Its registration ends a moment after it."""
    controllers = Controllers(OLD, old=raising(BrokerNotAvailable("refused")), new=DONE)
    with pytest.raises(NotController, match=r"within 2\.0 s: controller 1 advertised old:1, unreachable"):
        await controllers.create()
    assert controllers.looks > 2
    controllers.known = NEW
    await controllers.create()
    assert controllers.asked[-1] == "new"


async def test_without_a_controller_the_reason_is_what_is_known() -> None:
    """A ZooKeeper that is away is not a missing controller."""
    controllers = Controllers(None)
    with pytest.raises(NotController, match="ZooKeeper is away"):
        await controllers.create()
    assert controllers.asked == []


async def test_a_request_without_an_outcome_is_not_sent_again_and_the_next_one_looks_anew() -> None:
    """CORRECTNESS E9: it may have been carried out. The controller hangs, and another is active soon."""
    controllers = Controllers(OLD, old=raising(OutcomeUnknown("no answer")), new=DONE)
    with pytest.raises(OutcomeUnknown):
        await controllers.create()
    assert controllers.asked == ["old"]
    controllers.known = NEW
    await controllers.create()
    assert controllers.asked == ["old", "new"]
