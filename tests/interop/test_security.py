"""Files with which clients of other projects prove who they are."""

from __future__ import annotations

import os
from pathlib import Path

from strandline_lab.interop.security import Security, write_client_settings
from tests.conftest import ClusterFactory


async def test_keys_are_for_their_owner(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    cluster = await make_cluster(brokers=1, kafka=True, secure=True)
    umask = os.umask(0o022)
    try:
        await write_client_settings(Security.SSL, cluster, tmp_path)
    finally:
        os.umask(umask)
    written = ("librdkafka.properties", "java.properties", "chain.pem")
    assert {name: (tmp_path / name).stat().st_mode & 0o777 for name in written} == dict.fromkeys(
        written, 0o600
    )
