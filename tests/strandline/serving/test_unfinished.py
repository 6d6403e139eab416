"""The audit log knows of changes whose end is not seen (A15)."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from strandline.errors import InvalidRequest, RequestTimedOut
from strandline.ports import Caller
from strandline.serving.unfinished import unfinished_noted

CALLER = Caller("", "")


@pytest.mark.parametrize(
    ("raised", "noted"),
    [
        (asyncio.CancelledError(), "REQUEST_TIMED_OUT"),
        (RequestTimedOut("perhaps"), "REQUEST_TIMED_OUT"),
        (InvalidRequest("no"), ""),
        (None, ""),
    ],
)
def test_only_an_end_that_is_not_known_is_noted(raised: BaseException | None, noted: str) -> None:
    found: list[str] = []
    with (
        pytest.raises(type(raised)) if raised else nullcontext(),
        unfinished_noted(lambda error: found.append(error.code.name)),
    ):
        if raised is not None:
            raise raised
    assert found == ([noted] if noted else [])
