"""Members that hang for longer than their session, and wake up believing that they still own their tasks."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import Member, feeding, streaming
from tests.integration.streams.verdict import exactly_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


async def test_an_owner_that_wakes_after_its_session_extends_no_changelog(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(CORRECTNESS S8) it had read lines that it did not commit; others have counted them since. None of
    it gets into a changelog, and it continues as a normal member."""
    async with streaming(cluster, tmp_path) as app, feeding(app) as feed:
        members = [await app.start(), await app.start()]
        await app.running(*members)
        for sleeper, other in (members, members[::-1]):
            had = sleeper.running
            sleeper.signal(signal.SIGSTOP)
            await app.running(other)
            await feed.goes_on(200)
            sleeper.signal(signal.SIGCONT)
            await app.until(partial(_has_changed, sleeper, had), "it lost its tasks")
            await app.running(*members)
        await feed.finish()
        _ = await exactly_once(app)


def _has_changed(member: Member, running: set[str]) -> bool:
    return member.running != running
