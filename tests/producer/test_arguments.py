"""Arguments of the wrong kind are refused by name, before anything is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strandline.errors import InvalidRequest
from strandline.simulation.engine.loop import SimulatedLoop
from tests.producer.test_messages import Leader, producer_of
from tests.virtual_time import on_virtual_time

Call = Callable[[Any], Awaitable[object]]

ONE: list[bytes | None] = [b"value"]
RECORD = (b"key", b"value", (), 1_000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.send("t", b"value", partition="0"), "partition = '0': give a whole number"),
        (lambda p: p.send("t", b"value", partition=True), "partition = True: give a whole number"),
        (lambda p: p.send_many("t", ONE, partition=0.5), r"partition = 0\.5: give a whole number"),
        (lambda p: p.send_batch("t", 0, "text"), "batch = 'text': give the bytes of a batch"),
        (lambda p: p.send_records("t", 0, [(b"key", b"value")]), r"record = .*: give \(key, value, headers"),
        (lambda p: p.send_records("t", 0, b"value"), "records = b'value': give a list or a tuple"),
        *(
            (
                lambda p, wrong=wrong: p.send_records("t", 0, [RECORD], expected_offset=wrong),
                "expected_offset",
            )
            for wrong in (-1, 2**63, True, 1.5, "0")
        ),
        (lambda p: p.send_records("t", 0, []), "at least one"),
        (lambda p: p.send_many("t", b"value"), "values = b'value': give a list or a tuple"),
        (lambda p: p.send_many("t", iter(ONE)), "values = .*: give a list or a tuple"),
        (lambda p: p.send_many("t", None), "values = None: give a list or a tuple"),
        (lambda p: p.send_many("t", ONE, keys=b"k"), "keys = b'k': give a list or a tuple"),
        (lambda p: p.send_many("t", ONE, timestamps_ms=5), "timestamps_ms = 5: give a list or a tuple"),
    ],
)
@on_virtual_time
async def test_an_argument_of_the_wrong_kind_is_named(loop: SimulatedLoop, call: Call, message: str) -> None:
    """For a topic that is new to the producer, and for one that it knows."""
    async with producer_of(Leader(), loop) as producer:
        for _ in range(2):
            with pytest.raises(InvalidRequest, match=message):
                await call(producer)
        measured = producer.metrics()
        assert measured["buffer-available-bytes"] == measured["buffer-total-bytes"]


@on_virtual_time
async def test_an_expected_offset_needs_an_answer(loop: SimulatedLoop) -> None:
    async with producer_of(Leader(), loop, acks=0) as producer:
        with pytest.raises(InvalidRequest, match="acks=0"):
            _ = await producer.send_records("t", 0, [RECORD], expected_offset=0)
