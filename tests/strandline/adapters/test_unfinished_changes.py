"""The audit log knows of changes whose end is not seen (A15)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest

from strandline.adapters.unfinished_changes import unfinished_noted
from strandline.errors import InvalidRequest, RequestTimedOut, StrandlineError
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.asker import Asker
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.rights import DELETE_GROUP, Right

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

    def note(
        _: Asker, right: Right, name: str, arguments: Mapping[str, Any], error: StrandlineError | None
    ) -> None:
        assert error is not None
        found.append(error.code.name)
        assert (right, name, arguments) == (DELETE_GROUP, "g", {"offsets_of": ["t-0"]})

    access = Access(Authorizer(Rules()), on_changed=note)
    with (
        pytest.raises(type(raised)) if raised else nullcontext(),
        unfinished_noted(access, CALLER, DELETE_GROUP, "g", offsets_of=["t-0"]),
    ):
        if raised is not None:
            raise raised
    assert found == ([noted] if noted else [])
