"""The command line with one cluster in mind."""

from __future__ import annotations

from typing import Any

from strandline.local.cluster import LocalCluster
from tests.strandline.cli.support.cli_process import Ended, strandline


class Shell:
    """Runs commands that mean one cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.environment = {"STRANDLINE_BOOTSTRAP": cluster.bootstrap}

    async def __call__(self, *arguments: str, stdin: bytes = b"", program: str = "strandline") -> Ended:
        return await strandline(*arguments, stdin=stdin, program=program, **self.environment)

    async def objects(self, *arguments: str, stdin: bytes = b"", program: str = "strandline") -> list[Any]:
        """The JSON objects that a successful command prints."""
        ended = await self(*arguments, "-o", "json", stdin=stdin, program=program)
        assert ended.status == 0, ended.err
        return ended.objects

    async def topic(self, name: str, partitions: int = 1, replication_factor: int = 3) -> str:
        """Create a topic, of three replicas by default."""
        size = ("--partitions", str(partitions), "--replication-factor", str(replication_factor))
        await self.objects("topic", "create", name, *size)
        return name
