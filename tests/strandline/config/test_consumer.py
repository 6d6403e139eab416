"""An invalid group setting is refused at construction, not later by a coordinator, and never ignored."""

from __future__ import annotations

from typing import Any

import pytest

from strandline import Consumer
from strandline.config.consumer import ConsumerSettings
from strandline.config.load import load
from strandline.errors import SettingsError


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"group_id": ""}, "group_id = '': give text, 1 to 249 characters"),
        ({"group_id": 3}, "group_id = 3: give text"),
        ({"group_id": b"x"}, "group_id = b'x': give text"),
        ({"group_id": "\ud800"}, r"group_id = '\\ud800': give text that UTF-8 can write"),
        ({"group_id": "g" * 250}, "1 to 249 characters"),
        ({"group_instance_id": ""}, "group_instance_id = '': give text, 1 to 249 characters"),
        ({"group_instance_id": b"x"}, "group_instance_id = b'x'"),
        ({"client_id": "\ud800"}, "client_id = "),
        ({"max_poll_interval_ms": 10**12}, "max_poll_interval_ms = 1000000000000: .* 2147483647"),
        ({"session_timeout_ms": 2**31}, "session_timeout_ms = 2147483648: .* 2147483647"),
        ({"heartbeat_interval_ms": 10_001}, "heartbeat_interval_ms = 10001: .*session_timeout_ms = 10000"),
        ({"session_timeout_ms": 999}, "heartbeat_interval_ms = 1000: .*session_timeout_ms = 999"),
        ({"session_timeout_ms": 0}, "session_timeout_ms = 0: "),
    ],
)
def test_a_refused_setting_is_named_with_what_is_allowed(given: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        Consumer("127.0.0.1:1", **{"group_id": "g", **given})


def test_bounds_are_allowed() -> None:
    given = {"session_timeout_ms": 500, "heartbeat_interval_ms": 500, "max_poll_interval_ms": 2**31 - 1}
    settings = load(ConsumerSettings, group_id="ü" * 249, **given)
    assert (settings.heartbeat_interval_ms, settings.max_poll_interval_ms) == (500, 2**31 - 1)
