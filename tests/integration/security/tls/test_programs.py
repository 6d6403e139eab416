"""Programs with processes of their own reach a secure cluster (docs/run/security.md)."""

from __future__ import annotations

import pytest

from tests.conftest import ClusterFactory
from tests.strandline.cli.support.cli_process import LAB, strandline


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_members_of_a_measured_group_connect_with_a_certificate(make_cluster: ClusterFactory) -> None:
    cluster = await make_cluster(brokers=1, secure=True)
    ended = await strandline(
        "perf", "rebalance", "--members", "2", "--partitions", "2", "--rounds", "1", "--processes", "1",
        "--replication-factor", "1", "--rebalance-protocol", "cooperative", "-o", "json",
        "--bootstrap", cluster.bootstrap, "--command-config", str(cluster.directory / "client.toml"),
        program=LAB,
    )  # fmt: skip
    assert ended.status == 0, (ended.out, ended.err)
    assert {row["change"] for row in ended.objects} == {"add", "remove"}
