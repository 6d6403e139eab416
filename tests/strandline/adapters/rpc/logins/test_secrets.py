"""Tokens of an application's provider: shared, asked for anew before they end, and kept while it fails."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from strandline import OauthToken
from strandline.adapters.rpc.logins.secrets import Provided
from strandline.errors import AuthenticationFailed, SettingsError, StrandlineError
from tests.hand_clock import HandClock

LIFE_S: Final = 100.0


class Provider:
    """Counts its tokens, or fails."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.asked = 0
        self.failure: Exception | None = None
        self.answer: Any = None

    async def __call__(self) -> OauthToken:
        self.asked += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if self.answer is not None:
            return self.answer  # type: ignore[no-any-return]
        return OauthToken(f"token-{self.asked}", self._clock.wall_ms() + round(LIFE_S * 1000))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def provider(clock: HandClock) -> Provider:
    return Provider(clock)


@pytest.fixture
def secrets(clock: HandClock, provider: Provider) -> Provided:
    return Provided(provider, clock)


async def test_logins_share_a_token_while_most_of_its_time_is_left(
    secrets: Provided, clock: HandClock
) -> None:
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(secrets.current()) for _ in range(3)]
    assert {task.result() for task in asking} == {"token-1"}
    clock.now_s += LIFE_S * 0.79
    assert await secrets.current() == "token-1"
    clock.now_s += LIFE_S * 0.02
    assert await secrets.current() == "token-2"


async def test_the_last_token_goes_on_until_it_ends(
    secrets: Provided, provider: Provider, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An issuer that is down for a moment ends nothing."""
    await secrets.current()
    provider.failure = LookupError("secret of the issuer")
    clock.now_s += LIFE_S * 0.9
    assert await secrets.current() == "token-1"
    assert "raised LookupError: the last token goes on" in caplog.text
    clock.now_s += LIFE_S * 0.1
    with pytest.raises(AuthenticationFailed, match="raised LookupError") as failed:
        await secrets.current()
    assert "secret of the issuer" not in str(failed.value) + caplog.text
    provider.failure = None
    assert await secrets.current() == "token-4"


@pytest.mark.parametrize(
    "answer, error, why",
    [
        ("a token", SettingsError, "returned a str: return an OauthToken"),
        (OauthToken("old", 99_000), AuthenticationFailed, r"its token ended 1\.0 s ago"),
    ],
)
async def test_what_is_no_token_that_counts_is_refused(
    secrets: Provided, provider: Provider, answer: object, error: type[StrandlineError], why: str
) -> None:
    provider.answer = answer
    with pytest.raises(error, match=why):
        await secrets.current()


async def test_a_thread_has_the_token_too(secrets: Provided, clock: HandClock) -> None:
    """A heartbeat logs in from a thread of its own, on its own connection."""
    with pytest.raises(AuthenticationFailed, match="its event loop does not run"):
        await asyncio.to_thread(secrets.in_thread)
    await secrets.current()
    assert await asyncio.to_thread(secrets.in_thread) == "token-1"
    clock.now_s += LIFE_S
    assert await asyncio.to_thread(secrets.in_thread) == "token-2"


def test_no_value_shows_a_token() -> None:
    """A12"""
    assert "wonderland" not in repr(OauthToken("wonderland", 1))
