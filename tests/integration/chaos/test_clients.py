"""The load of a round: processes that are kept running until a test ends them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strandline import Admin, LocalCluster, NewTopic
from strandline_lab.chaos import clients
from strandline_lab.chaos.core.load import OWN, TOPICS, ClientRoles
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def test_a_client_without_events_in_its_first_life_begins_with_its_second(tmp_path: Path) -> None:
    """Seen on a busy machine: one found no broker, and the round waited for the history of its first life."""
    async with LocalCluster(2, directory=tmp_path / "cluster") as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic(each.topic, each.partitions, 2) for each in TOPICS])
        name = "consume-group-by-hand-2"
        roles = ClientRoles([role for role in OWN.roles if role.name in (name, "produce-p1")])
        (member,) = roles.members
        load = clients.Load(cluster.bootstrap, tmp_path, roles)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(load.run())
            await eventually(lambda: load.alive(member))
            await load.kill(member)
            await load.start(member)
            await load.begun()
            assert (tmp_path / f"{name}.jsonl").read_bytes() == b""
            assert b'"assigned"' in (tmp_path / f"{name}-2.jsonl").read_bytes()
            await load.end("")
            await running
    assert load.hung == []
