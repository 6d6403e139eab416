"""The reasons that the channels of a transport give for failed attempts (docs/correctness.md, X12)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from strandline.adapters.tls.channels import (
    ANSWERED_LOOK_S_MAX,
    CONNECT_S_MAX,
    SILENT_LOOK_S_MAX,
    Channels,
    Link,
)
from strandline.adapters.tls.peers import in_plaintext
from strandline.local.ports import LOOPBACK


@pytest.fixture
def refused() -> Iterator[str]:
    """An address whose port refuses connections."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield f"{LOOPBACK}:{bound.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address whose port takes connections, and sends nothing."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"{LOOPBACK}:{server.getsockname()[1]}"


async def test_calls_that_fail_at_the_same_time_share_one_look(refused: str) -> None:
    """X12: a broker is down for all calls of its clients at once, which is no error of any of them."""
    channels = Channels(in_plaintext, ())
    async with asyncio.TaskGroup() as calls:
        answers = [
            calls.create_task(channels.why_refused(refused, wait_s=SILENT_LOOK_S_MAX)) for _ in range(5)
        ]
    assert [answer.result() for answer in answers] == [None] * 5


async def test_a_call_does_not_wait_for_a_look_at_a_port_that_is_silent(silent: str) -> None:
    """X12: nor does the one after it."""
    channels = Channels(in_plaintext, ())
    assert await channels.why_refused(silent, wait_s=0) is None
    assert await channels.why_refused(silent, wait_s=0) is None


def failed_after(link: Link[object], seconds: float) -> float:
    """How long an error of an attempt that took this time waits for its reason."""
    link.connects(10.0)
    link.connects(10.1)  # another call, which waits for the same attempt
    link.fails(10.0 + seconds)
    link.fails(11.0 + seconds)
    return link.look_s_max


def test_an_error_waits_for_the_reason_of_a_peer_that_answers() -> None:
    """X12: and briefly for that of one that was silent until the attempt was over, or was reached before."""
    link = Link(object(), None)
    assert link.look_s_max == SILENT_LOOK_S_MAX
    assert failed_after(link, 0.9 * CONNECT_S_MAX) == ANSWERED_LOOK_S_MAX
    assert failed_after(link, CONNECT_S_MAX) == SILENT_LOOK_S_MAX
    link.is_connected()
    assert failed_after(link, 0.1) == 0
