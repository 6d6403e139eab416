"""Standbys: copies of a state that follow its changelog, to take over at once (docs/use/streams.md)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from strandline import LocalCluster
from strandline.adapters.system.clock import SystemClock
from tests.integration.streams.application import SESSION_S, Member, feeding, fill, streaming
from tests.integration.streams.verdict import exactly_once

pytestmark = pytest.mark.timeout(120)

TAKEN_S_MAX = 5.0
"""After the end of the dead member's session; on an idle machine it is a few hundred milliseconds."""


async def test_a_standby_takes_over_without_restoring_everything(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(CORRECTNESS S2, S4) every task of the killed member goes to the member with its copy, and runs a
    moment later."""
    async with streaming(cluster, tmp_path, num_standbys=1) as app:
        first = await app.start()
        for partition in range(app.partitions):
            await fill(app, partition, 5_000)
        await app.running(first)
        second = await app.start()
        await app.running(first, second)
        async with feeding(app):
            for member, other in ((first, second), (second, first)):
                await app.until(partial(_has_copies, member, other), "each has copies of the other's tasks")
            taken = first.running
            killed_at = SystemClock().monotonic()
            await first.kill()
            await app.running(second)
            took_s = SystemClock().monotonic() - killed_at
            for task in taken:
                roles = second.roles_ever(task)
                assert roles[-1] == "running" and "standby" in roles, (task, roles)
        assert took_s < SESSION_S + TAKEN_S_MAX
        _ = await exactly_once(app)


def _has_copies(member: Member, other: Member) -> bool:
    copies = member.with_role("standby")
    return copies == other.running and all((member.lags[task] or 0) < 1_000 for task in copies)
