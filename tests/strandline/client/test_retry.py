"""Retries: which errors, for how long, and the error at the end."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import pytest

from strandline.client.retry import Tries, retry
from strandline.config.client import ClientSettings
from strandline.errors import BrokerNotAvailable, InvalidRequest, OutcomeUnknown, StrandlineError
from tests.strandline.client.network import FastClock

SETTINGS = ClientSettings(retry_backoff_ms=100, retry_backoff_ms_max=400)


class Asked:
    """Fails with these errors in turn, the last one forever; without any left it answers."""

    def __init__(self, *errors: StrandlineError, for_ever: bool = False) -> None:
        self.errors = deque(errors)
        self.for_ever = for_ever
        self.calls = 0
        self.clock = FastClock()

    async def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors[0] if self.for_ever else self.errors.popleft()
        return self.calls

    async def result(self, **arguments: Any) -> int:
        return await retry(self, "it waits", settings=SETTINGS, clock=self.clock, **arguments)


async def test_retriable_errors_are_followed_by_longer_and_longer_pauses() -> None:
    asked = Asked(*(BrokerNotAvailable("away") for _ in range(4)))
    assert await asked.result() == 5
    assert asked.clock.now == pytest.approx(0.1 + 0.2 + 0.4 + 0.4)


async def test_a_fatal_error_is_raised_at_once() -> None:
    asked = Asked(InvalidRequest("no"))
    with pytest.raises(InvalidRequest):
        await asked.result()
    assert (asked.calls, asked.clock.now) == (1, 0)


async def test_the_last_error_is_raised_when_the_time_is_over() -> None:
    asked = Asked(BrokerNotAvailable("away"), for_ever=True)
    with pytest.raises(BrokerNotAvailable, match="away"):
        await asked.result(limit_s=0.6)
    assert asked.clock.now == pytest.approx(0.7), "the try that the limit interrupts still counts"


async def test_the_last_error_is_raised_after_the_last_try() -> None:
    asked = Asked(BrokerNotAvailable("away"), for_ever=True)
    with pytest.raises(BrokerNotAvailable):
        await asked.result(tries_max=3)
    assert asked.calls == 3


async def test_one_try_never_pauses() -> None:
    asked = Asked(BrokerNotAvailable("away"), for_ever=True)
    with pytest.raises(BrokerNotAvailable):
        await asked.result(tries_max=1)
    assert asked.clock.now == 0


async def test_the_caller_may_say_which_errors_are_retried_and_sees_each() -> None:
    unknown, away = OutcomeUnknown("broken"), BrokerNotAvailable("away")
    seen: list[StrandlineError] = []
    asked = Asked(unknown, unknown, away)
    with pytest.raises(BrokerNotAvailable):
        await asked.result(retriable=lambda error: isinstance(error, OutcomeUnknown), on_retry=seen.append)
    assert seen == [unknown, unknown]


async def test_only_the_first_wait_in_a_row_is_more_than_a_debug_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = Asked(*(BrokerNotAvailable("away") for _ in range(3)))
    with caplog.at_level(logging.DEBUG, "strandline.client.retry"):
        await asked.result(level=logging.WARNING)
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.DEBUG, logging.DEBUG]
    assert caplog.messages[0] == "it waits: away"


async def test_a_success_makes_pauses_short_again() -> None:
    clock = FastClock()
    tries = Tries(SETTINGS, clock)
    await tries.pause()
    await tries.pause()
    tries.reset()
    await tries.pause()
    assert clock.now == pytest.approx(0.1 + 0.2 + 0.1)
    assert not tries.over


async def test_a_wait_that_lasts_is_a_warning_soon_and_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A client that waits without a bound, as for the coordinator of its group, does not do so in silence."""
    caplog.set_level(logging.INFO)
    asked = Asked(*(BrokerNotAvailable("away") for _ in range(400)))
    await asked.result()
    said = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert said[0] == ("INFO", "it waits: away")
    assert [level for level, _ in said[1:]] == ["WARNING"] * 3
    assert [text for _, text in said[1:]] == [
        f"it waits, for {seconds} s by now: away" for seconds in (2, 63, 123)
    ]


async def test_after_a_success_another_wait_begins(caplog: pytest.LogCaptureFixture) -> None:
    clock = FastClock()
    tries = Tries(SETTINGS, clock)
    for _ in range(10):
        tries.log(logging.getLogger("it"), "it waits", BrokerNotAvailable("away"))
        await tries.pause()
        tries.reset()
        await clock.sleep(1)
    assert not caplog.records
