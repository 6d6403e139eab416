"""What is unsafe is said once a minute (docs/run/security.md)."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from strandline.config.authorization import AuthorizationSettings
from strandline.standing_warnings import warn_while_unsafe
from tests.hand_clock import HandClock


class Minutes(HandClock):
    """Ends after some minutes."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if self.now_s > 100 + 2.5 * 60:
            raise asyncio.CancelledError


async def test_open_resources_are_warned_of_each_minute() -> None:
    settings = AuthorizationSettings(
        authorizer="acl", super_users="User:admin", allow_everyone_if_no_acl_found=True
    )
    with capture_logs() as logged, pytest.raises(asyncio.CancelledError):
        await warn_while_unsafe(settings, Minutes())
    assert [line["setting"] for line in logged] == ["allow_everyone_if_no_acl_found"] * 3


@pytest.mark.parametrize(
    "settings",
    [
        AuthorizationSettings(),
        AuthorizationSettings(allow_everyone_if_no_acl_found=True),
        AuthorizationSettings(authorizer="acl", super_users="User:admin"),
    ],
)
async def test_what_is_safe_is_not_warned_of(settings: AuthorizationSettings) -> None:
    with capture_logs() as logged:
        await warn_while_unsafe(settings, HandClock())
    assert logged == []
