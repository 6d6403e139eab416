"""The audit log has each change that may have been made (A15)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from strandline.adapters.codecs.admin import DELETE_TOPICS
from strandline.adapters.telemetry.audit import Audit
from strandline.ports import Caller, ServedCall
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer
from strandline.serving.serve import CallRow, Serving
from tests.hand_clock import HandClock


async def test_a_change_that_the_end_of_the_process_cuts_off_has_an_unknown_outcome(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def delete(_request: Any, _caller: Caller) -> Any:
        begun.set()
        await asyncio.Event().wait()

    file = tmp_path / "audit"
    audit = Audit(str(file), HandClock())
    row = CallRow(DELETE_TOPICS.served, delete, changes=lambda _request, _answer: ())
    (served,) = Serving(Access(Authorizer(None)), audit, HandClock()).served([row])
    assert isinstance(served, ServedCall)

    async def change() -> None:
        await served.handle(None, Caller("", "192.0.2.1"))

    async with asyncio.TaskGroup() as tasks:
        changing = tasks.create_task(change())
        await begun.wait()
        changing.cancel()
    audit.close()
    line = json.loads(file.read_text())
    assert (line["event"], line["address"], line["error"]) == ("change", "192.0.2.1", "REQUEST_TIMED_OUT")
