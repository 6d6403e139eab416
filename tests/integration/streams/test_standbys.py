"""Standbys: copies of a state that follow its changelog, to take over at once (docs/use/streams.md)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import Member, feeding, fill, streaming
from tests.integration.streams.verdict import exactly_once

pytestmark = pytest.mark.timeout(120)

LAG_MAX = 1_000
"""Records that a copy may lack, of several thousand."""


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
            await first.kill()
            await app.running(second)
            for task in taken:
                roles = second.roles_ever(task)
                assert roles[-1] == "running" and "standby" in roles, (task, roles)
                assert second.restored(task) < LAG_MAX, "it read again what its copy had"
        _ = await exactly_once(app)


def _has_copies(member: Member, other: Member) -> bool:
    copies = member.with_role("standby")
    return copies == other.running and all((member.lags[task] or 0) < LAG_MAX for task in copies)
