"""A member's view of the state: its own, and the owner of the rest (docs/use/streams.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline import LocalCluster
from strandline_lab.simulation.workloads.counting.topology import COMPONENTS
from tests.integration.streams.application import COMPONENTS_FED, feeding, streaming
from tests.integration.streams.verdict import exactly_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


async def test_every_key_is_found_at_the_member_that_is_named_as_its_owner(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Every member names the same one; what that one has is what was committed; ranges are in order."""
    async with streaming(cluster, tmp_path) as app:
        async with feeding(app) as feed:
            members = [await app.start(), await app.start()]
            await app.running(*members)
            await feed.goes_on(300)
        history = await exactly_once(app)
        counted = {key.decode(): value for key, value in _total(history.counts).items()}
        assert len(counted) == COMPONENTS_FED
        by_name = {member.name: member for member in members}
        for key, value in counted.items():
            named = [await member.ask("owner", COMPONENTS, key=key) for member in members]
            assert len({(owner["server"], owner["task"]) for owner in named}) == 1, named
            assert [owner["here"] for owner in named] == [
                member.name == named[0]["server"] for member in members
            ]
            owner = by_name[named[0]["server"]]
            assert named[0]["task"] in owner.running
            assert await owner.ask("get", COMPONENTS, key=key) == value
        shares = [await member.ask("range", COMPONENTS, start=None, end=None) for member in members]
        assert sorted(tuple(row) for share in shares for row in share) == sorted(counted.items())
        first, last = sorted(counted)[1], sorted(counted)[-2]
        within = [await member.ask("range", COMPONENTS, start=first, end=last) for member in members]
        wanted = sorted(key for key in counted if first <= key < last)
        assert sorted(row[0] for share in within for row in share) == wanted


def _total(counts: list[tuple[bytes, int]]) -> dict[bytes, int]:
    """The greatest count of each."""
    total: dict[bytes, int] = {}
    for key, value in counts:
        total[key] = max(value, total.get(key, 0))
    return total
