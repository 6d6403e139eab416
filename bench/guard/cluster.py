"""Serves a cluster of three brokers until standard input ends. Run by its path, so that the cluster is of the
tree on PYTHONPATH.

Prints a JSON object: `bootstrap`, and `code`, the file from which strandline was imported.
"""

from __future__ import annotations

import asyncio
import json
import sys

import strandline
from strandline import LocalCluster


async def main() -> None:
    async with LocalCluster(brokers=3) as cluster:
        print(json.dumps({"bootstrap": cluster.bootstrap, "code": strandline.__file__}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
