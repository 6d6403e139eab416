"""The reasons that the channels of a transport give for failed attempts (docs/correctness.md, X12)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from strandline.adapters.tls.channels import Channels
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
        answers = [calls.create_task(channels.why_refused(refused, wait=True)) for _ in range(5)]
    assert [answer.result() for answer in answers] == [None] * 5


async def test_a_call_does_not_wait_for_a_look_at_a_port_that_is_silent(silent: str) -> None:
    """X12: nor does the one after it."""
    channels = Channels(in_plaintext, ())
    assert await channels.why_refused(silent, wait=False) is None
    assert await channels.why_refused(silent, wait=False) is None
