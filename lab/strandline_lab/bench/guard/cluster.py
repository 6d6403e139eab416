"""Serves a cluster of three brokers until standard input ends. Run by its path, so that the cluster is of the
tree on PYTHONPATH.

Prints a JSON object: `bootstrap`, and `code`, the files from which strandline and its laboratory were
imported. The laboratory has the commands that measure.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

import strandline
import strandline_lab
from strandline import LocalCluster

START_S_MAX: Final = 120.0
"""The other tree's cluster may be running on the same cores."""


async def main() -> None:
    cluster = LocalCluster(brokers=3)
    await cluster.start(timeout_s=START_S_MAX)
    try:
        code = [strandline.__file__, strandline_lab.__file__]
        print(json.dumps({"bootstrap": cluster.bootstrap, "code": code}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await cluster.stop(clean=False)


if __name__ == "__main__":
    asyncio.run(main())
